"""Following a region's cluster: step 6 of the protocol. Facts become conditional transitions; one that is won writes one event.

Facts of one object are handled one after the other and the newest wins; those of different objects don't wait for each other. Heads are
read in batches when an object is first of interest, kept, and corrected by the refusal of a write that was made from an old one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from shared.clock import Clock
from shared.jobs import transitions
from shared.jobs.change import Change, Moment
from shared.jobs.changes import Changes
from shared.jobs.head_cache import HeadCache
from shared.jobs.judgement import Verdict, is_committed, is_placeless, judge_gone, judge_present
from shared.jobs.model import Head, StopIntent
from shared.jobs.ports import Cluster, JobStore, LogKeeper, Meter, Observed, RefusedError, Render
from shared.jobs.stopping import Stopping

log = structlog.get_logger()

ADOPTION_GRACE = timedelta(seconds=90)
"""How long an object may stand suspended before the observer asks whose it is: a lease and a half, so that its maker comes first."""
PLACELESS_AFTER = timedelta(seconds=30)
"""How long pods may find no place before the job says so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """What was seen of one object; `gone` when it is no more."""

    seen: Observed
    gone: bool


class Observation:
    """Turns what is seen on one region's cluster into the states of its jobs."""

    def __init__(
        self,
        *,
        region: str,
        store: JobStore,
        cluster: Cluster,
        render: Render,
        changes: Changes,
        stopping: Stopping,
        logs: LogKeeper,
        heads: HeadCache,
        clock: Clock,
        grace: timedelta = ADOPTION_GRACE,
        meter: Meter | None = None,
    ) -> None:
        self._region = region
        self._store = store
        self._cluster = cluster
        self._render = render
        self._changes = changes
        self._stopping = stopping
        self._logs = logs
        self._heads = heads
        self._clock = clock
        self._grace = grace
        self._meter = meter
        self._settled: set[str] = set()

    async def handle(self, fact: Fact) -> timedelta | None:
        """See to one fact; returns how long from now it should be looked at again, if at all.

        Raises UnavailableError where it can't be seen to yet: a part that is needed doesn't answer, or pods of what is gone are left.
        """
        seen = fact.seen
        if seen.uid in self._settled:
            if fact.gone:
                self._settled.discard(seen.uid)
            return None
        if not fact.gone and not seen.is_released and not seen.deleting and not self._overdue(seen):
            return self._grace
        head = await self._heads.get(seen.job_id)
        if head is not None and not is_committed(head, seen):
            head = await self._heads.fresh(seen.job_id)
        if head is None:
            log.warning("object of an unknown job", job=seen.job_id, object=seen.name, namespace=seen.namespace)
            return None
        verdict = judge_gone(head, seen) if fact.gone else judge_present(head, seen)
        if fact.gone and verdict is not Verdict.NOTHING:
            await self._stopping.clear_pods(head)
        if verdict is Verdict.NOTHING and is_placeless(head, seen):
            return await self._tell_placeless(head, seen)
        await self._carry_out(verdict, head, fact)
        return None if seen.is_released or fact.gone else self._grace

    async def settle(self, listed: Iterable[Observed]) -> list[Fact]:
        """After a fresh list: the facts of jobs whose committed object was not on it, each confirmed by a read of its own."""
        present = {seen.uid for seen in listed}
        self._settled &= present
        facts = []
        for head in await self._store.active(self._region):
            if head.object is None or head.object.uid in present:
                continue
            found = await self._cluster.read(head.namespace, head.object.name)
            if found is not None and found.uid == head.object.uid:
                facts.append(Fact(seen=found, gone=False))
            else:
                facts.append(Fact(seen=_unseen(head), gone=True))
        return facts

    async def _tell_placeless(self, head: Head, seen: Observed) -> timedelta | None:
        """Once an execution, and not before its pods had a while to find a place: a full cluster is no news."""
        waited = self._clock.now() - (head.committed_at or head.updated_at)
        if waited < PLACELESS_AFTER:
            return PLACELESS_AFTER - waited

        def build(now: Head, moment: Moment) -> Change | None:
            return transitions.unschedulable(now, seen.unschedulable or "", moment) if is_placeless(now, seen) else None

        self._heads.keep(await self._changes.make(head, build))
        return None

    def _overdue(self, seen: Observed) -> bool:
        return seen.created_at is not None and self._clock.now() - seen.created_at > self._grace

    async def _carry_out(self, verdict: Verdict, head: Head, fact: Fact) -> None:
        seen = fact.seen
        match verdict:
            case Verdict.NOTHING:
                self._note(head, fact)
            case Verdict.STRAY:
                log.info("stray object deleted", job=head.id, object=seen.name, uid=seen.uid)
                await self._cluster.delete(seen.namespace, seen.name, seen.uid)
            case Verdict.RELEASE:
                await self._release(head, seen)
            case Verdict.INTERRUPTED:
                reason = seen.disrupted or "interrupted"
                self._heads.keep(await self._stopping.request(head, StopIntent.INTERRUPTION, reason))
            case Verdict.STOPPED:
                self._heads.keep(await self._stopping.complete(head, seen=seen))
            case Verdict.SUCCEEDED | Verdict.FAILED:
                await self._finish(verdict, head, fact)
            case _:
                await self._advance(head, fact, ends=verdict is not Verdict.RUNNING)

    async def _release(self, head: Head, seen: Observed) -> None:
        specification = (await self._store.specifications([head])).get(head.id)
        if specification is None:
            return
        try:
            await self._cluster.support(self._render.bundle(head, specification), seen)
            await self._cluster.release(seen.namespace, seen.name, seen.uid, self._clock.now())
        except RefusedError as refused:
            self._heads.keep(await self._stopping.request(head, StopIntent.REFUSAL, str(refused)))

    async def _finish(self, verdict: Verdict, head: Head, fact: Fact) -> None:
        """An execution has ended: its logs are kept first, so that an ended job's logs can be read."""
        note = await self._logs.keep(head)
        seen = fact.seen
        if verdict is Verdict.FAILED and seen.disrupted is None:
            seen = replace(seen, disrupted=await self._disruption(seen))
        await self._advance(head, Fact(seen=replace(seen, logs=note), gone=fact.gone), ends=True)

    async def _disruption(self, seen: Observed) -> str | None:
        return await self._cluster.disruption(seen.namespace, seen.name)

    async def _advance(self, head: Head, fact: Fact, *, ends: bool) -> None:
        """Make the transition that the fact stands for; when the job has changed meanwhile, judge anew."""
        if ends and self._meter is not None:
            await self._meter.settle(head)

        def build(now: Head, moment: Moment) -> Change | None:
            verdict = judge_gone(now, fact.seen) if fact.gone else judge_present(now, fact.seen)
            change = transition(verdict, now, fact.seen, moment)
            return self._charged(change.counting(fact.seen.pods), now, fact.seen, moment) if change is not None else None

        after = await self._changes.make(head, build)
        self._heads.keep(after)
        self._note(after, fact)

    def _charged(self, change: Change, head: Head, seen: Observed, moment: Moment) -> Change:
        """The same change, telling what the job has cost."""
        if self._meter is None:
            return change
        return change.charging(self._meter.cost(head, seen, moment.now, ended=change.ended is not None))

    def _note(self, head: Head, fact: Fact) -> None:
        """An object whose job has ended by it means nothing any more, however long it stands: no later fact of it costs a read."""
        if head.state.terminal:
            self._heads.forget(head.id)
            if not fact.gone and is_committed(head, fact.seen):
                self._settled.add(fact.seen.uid)


def transition(verdict: Verdict, head: Head, seen: Observed, moment: Moment) -> Change | None:
    """The change that a verdict calls for; None where it calls for none of the job's state."""
    match verdict:
        case Verdict.RUNNING:
            return transitions.running(head, None, moment)
        case Verdict.SUCCEEDED:
            return transitions.succeeded(head, seen.finished_at, moment, started_at=seen.started_at, message=seen.logs)
        case Verdict.FAILED if seen.disrupted is not None:
            return transitions.interrupted(head, seen.disrupted, moment)
        case Verdict.FAILED:
            message = "; ".join(part for part in (seen.failed_message, seen.logs) if part)
            return transitions.attempt_failed(head, seen.failed_reason or "failed", message, moment)
        case Verdict.NOT_STARTED:
            return transitions.not_started(head, f"{seen.name} was deleted before it was released", moment)
        case Verdict.DELETED:
            return transitions.failed(head, "deleted on the cluster", f"{seen.name} ({seen.uid}) is gone without having ended", moment)
        case Verdict.STOPPED:
            return transitions.stopped(head, moment)
        case _:
            return None


def _unseen(head: Head) -> Observed:
    """What is known of a committed object that is gone and whose end nobody saw. It may have run, so it counts as released."""
    assert head.object is not None
    return Observed(
        name=head.object.name,
        namespace=head.namespace,
        uid=head.object.uid,
        resource_version="",
        job_id=head.id,
        execution=head.execution,
        spec_hash=head.spec_hash,
        released="unknown",
        suspended=False,
        deleting=False,
    )
