"""Ending what runs: step 8 of the protocol, for cancels, timeouts, interruptions and refusals alike.

A mark says that an execution is to stop and why. Then its object is deleted, by UID, with its pods before it; and only when the cluster
confirms that nothing of it is left does the job go on to what the mark intends. So a new execution never runs beside the old one.
"""

from __future__ import annotations

from shared.clock import Clock
from shared.errors import UnavailableError
from shared.jobs import transitions
from shared.jobs.change import Change, Moment
from shared.jobs.changes import Changes
from shared.jobs.model import Head, StopIntent
from shared.jobs.ports import Cluster, JobStore, LogKeeper, Meter, Observed, Render
from shared.jobs.states import State

PODS_SECONDS = 2.0
"""How long at least until pods that are left are looked at again."""

OBSERVER_SECONDS = 5.0
"""How long after a stop was asked for the observer may take to see its end and tell it with its cost."""


class Stopping:
    """Marks executions of one region, deletes their objects, and completes the stop.

    With a `meter`, ends tell what they have cost; so whoever has none leaves the end to who has, for a while.

    A job may have been moved since the bell about it was rung: that this cluster has nothing of it says nothing then.
    """

    def __init__(
        self,
        *,
        region: str,
        store: JobStore,
        cluster: Cluster,
        render: Render,
        changes: Changes,
        logs: LogKeeper,
        clock: Clock,
        meter: Meter | None = None,
    ) -> None:
        self._region = region
        self._store = store
        self._cluster = cluster
        self._render = render
        self._changes = changes
        self._logs = logs
        self._clock = clock
        self._meter = meter

    async def request(self, head: Head, intent: StopIntent, reason: str, *, by: str | None = None) -> Head:
        """Mark the head's execution, while it is on the cluster; the bell that this rings has its object deleted."""
        execution = head.execution

        def build(now: Head, moment: Moment) -> Change | None:
            if now.execution != execution or not now.state.on_cluster:
                return None
            return transitions.stop_requested(now, intent, reason, by, moment)

        return await self._changes.make(head, build)

    async def answer(self, job_id: str) -> None:
        """A bell asks to have a job's stop carried out. The holder of a live claim sees to its own."""
        head = await self._store.head(job_id)
        if head is None or head.stop is None or head.region != self._region:
            return
        if head.state is State.CLAIMED and head.claim is not None and self._clock.now() < head.claim.expires_at:
            return
        await self.stop(head)

    async def stop(self, head: Head) -> None:
        """Delete what a job of this region, marked to be stopped, has on the cluster; when it is confirmed gone, the stop is complete.

        Where the deletion takes time, the observer sees its end; where it fails, the sweeper has it tried again.
        """
        if head.region != self._region:
            return
        name = head.object.name if head.object else self._render.name(head)
        found = await self._cluster.read(head.namespace, name)
        if found is not None and _is_of(found, head):
            if found.is_released:
                await self._logs.keep(head)
            if not await self._cluster.delete(head.namespace, name, found.uid):
                return
        # Others may have deleted the object and not its pods. Before its commit an execution has none.
        if head.object is not None and await self._cluster.pods_left(head.namespace, head.id, head.execution):
            raise UnavailableError(f"pods of {head.object.name} are left", retry_after=PODS_SECONDS)
        if head.object is not None and self._meter is None and (seconds := self._left_to_observer(head)) > 0:
            raise UnavailableError(f"the end of {head.object.name} is left to the observer, which knows its cost", retry_after=seconds)
        await self.complete(head)

    async def clear_pods(self, head: Head) -> None:
        """The head's committed object is gone: delete what it left to nobody. Raises UnavailableError while a pod of the execution is left.

        Whoever deletes an object decides what becomes of its pods: `--cascade=orphan` leaves them, running, to nobody.
        """
        if head.object is None:
            return
        if not await self._cluster.clear_pods(head.namespace, head.id, head.execution, head.object.uid):
            raise UnavailableError(f"pods of {head.object.name}, which is gone, are left", retry_after=PODS_SECONDS)

    def _left_to_observer(self, head: Head) -> float:
        """For how many seconds more whoever knows no cost leaves the end of a stop to the observer, which sees it too."""
        if head.stop is None:
            return 0.0
        return OBSERVER_SECONDS - (self._clock.now() - head.stop.requested_at).total_seconds()

    async def complete(self, head: Head, *, seen: Observed | None = None) -> Head:
        """The cluster confirmed that nothing is left of the execution that was to be stopped; `seen` is what was last seen of it."""
        execution, meter = head.execution, self._meter
        if meter is not None:
            await meter.settle(head)

        def build(now: Head, moment: Moment) -> Change | None:
            if now.stop is None or now.execution != execution:
                return None
            change = transitions.stopped(now, moment)
            return change.charging(meter.cost(now, seen, moment.now, ended=True)) if meter is not None else change

        return await self._changes.make(head, build)


def _is_of(found: Observed, head: Head) -> bool:
    """Whether an object is the one of the head's execution; before the commit, the annotations say so."""
    if head.object is not None:
        return found.uid == head.object.uid
    return found.job_id == head.id and found.execution == head.execution
