"""From the ready list to a running object: claim, create suspended, commit, release. Steps 2 to 5 of the exactly-once protocol.

The order is what makes it safe. A worker that stalls past its lease may still create a suspended object, but it can't commit it, so it
never runs; and whoever finds a committed object that was not released releases it, once, by a patch that only the first one can make.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

import structlog

from shared.clock import Clock
from shared.errors import InvalidError, UnavailableError
from shared.ids import Ids
from shared.jobs import transitions
from shared.jobs.changes import Changes
from shared.jobs.model import Claim, ClusterObject, Head, ReadyEntry, Specification, StopIntent
from shared.jobs.patience import patiently
from shared.jobs.ports import Bundle, Cluster, JobStore, LostError, Observed, RefusedError, Render, StrangerError
from shared.jobs.regions import ClaimGate
from shared.jobs.rivals import Rivals, steps
from shared.jobs.states import State
from shared.jobs.stopping import Stopping

log = structlog.get_logger()

LEASE = timedelta(seconds=60)
"""How long a claim lasts. Applying takes a few hundred milliseconds; half of the lease is left for tries against a cluster that is slow."""


class Outcome(StrEnum):
    """How the application of one claimed job ended."""

    APPLIED = "applied"  # committed and released
    FENCED = "fenced"  # somebody else holds the job by now
    RETRYABLE = "retryable"  # given back, or left to the sweeper, to be tried again
    FAILED = "failed"  # the cluster will never accept it
    STOPPED = "stopped"  # it was to be stopped before it had been committed


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """A job that this worker has claimed, and the time of the event loop by which it must have been applied or given back."""

    head: Head
    until: float


class Dispatch:
    """Claims and applies the jobs of one region."""

    def __init__(
        self,
        *,
        region: str,
        owner: str,
        store: JobStore,
        cluster: Cluster,
        render: Render,
        stopping: Stopping,
        gate: ClaimGate,
        changes: Changes,
        clock: Clock,
        ids: Ids,
        chance: random.Random,
        lease: timedelta = LEASE,
    ) -> None:
        self._region = region
        self._owner = owner
        self._store = store
        self._cluster = cluster
        self._render = render
        self._stopping = stopping
        self._gate = gate
        self._changes = changes
        self._clock = clock
        self._ids = ids
        self._lease = lease
        self._rivals = Rivals(chance)
        self._seen: set[str] = set()

    async def claim(self, limit: int) -> tuple[list[Claimed], bool]:
        """Claim up to `limit` of the best ready jobs; the second value says whether there may be more to claim.

        A claim that another worker was faster to make ends the look: who looks again sees what the other has left. In a drained region
        there is nothing to claim, until a bell tells that it was resumed. Raises UnavailableError.
        """
        if not await self._gate.is_open():
            self._seen = set()
            return [], False
        limit = max(limit, 1)
        window = self._rivals.window(limit)
        found = await self._store.ready(self._region, window)
        self._seen = {entry.job_id for entry in found}
        entries = self._rivals.fresh(found)
        won: list[Claimed] = []
        tried = 0
        for lane in self._rivals.lanes(entries):
            for step in steps(lane.entries, limit - len(won)):
                results = await asyncio.gather(*(self._claim_one(entry) for entry in step))
                tried += len(step)
                won += [claimed for claimed in results if claimed is not None]
                if len(won) < tried:
                    self._rivals.met(lane)
                    return won, tried < len(entries) or len(found) >= window
        if tried:
            self._rivals.quiet()
        return won, tried < len(entries) or len(found) >= window

    def has_seen(self, job_id: str) -> bool:
        """Whether a job was in the ready list at the last look, or has been claimed here. If not, the index may have been behind."""
        return job_id in self._seen or self._rivals.has_won(job_id)

    async def _claim_one(self, entry: ReadyEntry) -> Claimed | None:
        loop_time = asyncio.get_running_loop().time()
        until = loop_time + self._lease.total_seconds() / 2
        now = self._clock.now()
        claim = Claim(owner=self._owner, nonce=self._ids.nonce(), claimed_at=now, expires_at=now + self._lease)
        try:
            head = await patiently(lambda: self._store.claim(entry, claim), until=until)
        except UnavailableError as error:
            log.warning("claim unanswered", job=entry.job_id, error=str(error))
            return None
        if head is None:
            return None
        self._rivals.won(entry)
        return Claimed(head=head, until=until)

    async def specifications(self, claimed: list[Claimed]) -> dict[str, Specification]:
        """The specifications of claimed jobs, by job id, in one batch read. Raises UnavailableError."""
        return await self._store.specifications([one.head for one in claimed])

    async def apply(self, claimed: list[Claimed]) -> list[Outcome]:
        """Apply claimed jobs, all at once; one batch read brings their specifications."""
        if not claimed:
            return []
        heads = [one.head for one in claimed]
        try:
            until = min(one.until for one in claimed)
            found = await patiently(lambda: self.specifications(claimed), until=until)
        except UnavailableError as error:
            return list(await asyncio.gather(*(self._give_back(head, str(error), cluster_refused=True) for head in heads)))
        return list(await asyncio.gather(*(self.apply_one(one, found.get(one.head.id)) for one in claimed)))

    async def apply_one(self, claimed: Claimed, specification: Specification | None) -> Outcome:
        """Create, commit and release the object of one claimed job."""
        head = claimed.head
        if specification is None:
            return await self._fail(head, "specification missing", f"version {head.spec_version} is not in the table")
        try:
            bundle = self._render.bundle(head, specification)
            del specification  # a cluster may take long to answer, and a thousand manifests that nobody needs any more are heavy
            made = await self._create(claimed, bundle)
            bundle = replace(bundle, job={"metadata": bundle.job["metadata"]})
        except StrangerError as stranger:
            return await self._fail(head, "name taken", str(stranger))
        except (RefusedError, InvalidError) as refused:
            return await self._fail(head, "refused by the cluster", str(refused))
        except UnavailableError as error:
            return await self._give_back(head, str(error), cluster_refused=True)
        if made.deleting:
            return await self._give_back(head, f"an earlier object {made.name} is still being deleted", cluster_refused=True)
        return await self._commit(head, made, bundle, claimed.until)

    async def _create(self, claimed: Claimed, bundle: Bundle) -> Observed:
        head = claimed.head
        return await patiently(lambda: self._cluster.create(bundle, head.id, head.execution, head.spec_hash), until=claimed.until)

    async def _commit(self, head: Head, made: Observed, bundle: Bundle, until: float) -> Outcome:
        placed = ClusterObject(name=made.name, uid=made.uid)
        change = transitions.committed(head, placed, self._changes.moment())
        try:
            now = await patiently(lambda: self._changes.write(change), until=until)
        except LostError as lost:
            return await self._lost(lost.current, head, made, bundle)
        except UnavailableError as error:
            log.warning("commit unanswered", job=head.id, error=str(error))
            return Outcome.RETRYABLE
        return await self.release(now, made, bundle)

    async def _lost(self, current: Head | None, held: Head, made: Observed, bundle: Bundle) -> Outcome:
        """The commit was refused: see whether the job is to be stopped, is another's, or was ours all along."""
        if current is None or held.claim is None:
            return Outcome.FENCED
        if current.object is not None and current.object.uid == made.uid and current.state.on_cluster and current.stop is None:
            return await self.release(current, made, bundle)
        return await self._yield(current)

    async def _yield(self, current: Head | None) -> Outcome:
        """A write of ours was refused: carry out the stop that a claimed job is marked with, or leave the job to whoever has it.

        Before its commit nothing of an execution can have run, so it doesn't matter who holds the claim: what its holder still creates
        is a stray.
        """
        if current is None or current.stop is None or current.state is not State.CLAIMED:
            return Outcome.FENCED
        try:
            await self._stopping.stop(current)
        except (UnavailableError, LostError) as error:
            log.warning("stop not carried out; the sweeper has it tried again", job=current.id, error=str(error))
        return Outcome.STOPPED

    async def release(self, head: Head, made: Observed, bundle: Bundle) -> Outcome:
        """Put what supports the committed object beside it, then let it run. The observer does this where we can't."""
        until = asyncio.get_running_loop().time() + self._lease.total_seconds() / 2
        try:
            if bundle.supporting:
                await patiently(lambda: self._cluster.support(bundle, made), until=until)
            at = self._clock.now()
            await patiently(lambda: self._cluster.release(head.namespace, made.name, made.uid, at), until=until)
        except RefusedError as refused:
            await self._stopping.request(head, StopIntent.REFUSAL, str(refused), by=self._owner)
            return Outcome.FAILED
        except UnavailableError as error:
            log.warning("release unanswered", job=head.id, object=made.name, error=str(error))
        return Outcome.APPLIED

    async def give_back(self, claimed: Claimed, reason: str) -> None:
        """Give a claim back at once, for another worker (graceful shutdown)."""
        await self._give_back(claimed.head, reason, cluster_refused=False)

    async def _give_back(self, head: Head, reason: str, *, cluster_refused: bool) -> Outcome:
        try:
            await self._changes.write(transitions.claim_returned(head, reason, self._changes.moment(), cluster_refused=cluster_refused))
        except LostError as lost:
            return await self._yield(lost.current)
        except UnavailableError as error:
            log.warning("claim not given back; it lapses", job=head.id, error=str(error))
        return Outcome.RETRYABLE

    async def _fail(self, head: Head, reason: str, message: str) -> Outcome:
        try:
            await self._changes.write(transitions.failed(head, reason, message, self._changes.moment()))
        except LostError as lost:
            return await self._yield(lost.current)
        except UnavailableError as error:
            log.warning("failure not written; the claim lapses", job=head.id, error=str(error))
            return Outcome.RETRYABLE
        return Outcome.FAILED
