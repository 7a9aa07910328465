"""A wait is over: a bell rung with a delay says so, to the second, and the sweeper says so when that bell was lost."""

from __future__ import annotations

from shared.clock import Clock
from shared.jobs import transitions
from shared.jobs.change import Change, Moment
from shared.jobs.changes import Changes
from shared.jobs.model import Head, WaitKind
from shared.jobs.ports import Doorbell, JobStore
from shared.jobs.states import State


class Waking:
    """Puts jobs of one region whose back-off has ended into the ready list. A wait for a spot price is the sweeper's alone.

    A job that was moved since has a bell of its own in its new region, where somebody is there to be told that it is ready.
    """

    def __init__(self, *, region: str, store: JobStore, changes: Changes, doorbell: Doorbell, clock: Clock) -> None:
        self._region = region
        self._store = store
        self._changes = changes
        self._doorbell = doorbell
        self._clock = clock

    async def answer(self, job_id: str) -> None:
        """A bell says that a job's wait is over; where it is not yet, by our clock, the bell is rung again."""
        head = await self._store.head(job_id)
        if head is None or head.region != self._region or not _backs_off(head):
            return
        assert head.wait is not None
        early = (head.wait.until - self._clock.now()).total_seconds()
        if early > 0:
            await self._doorbell.ring(head.region, head.id, kind="wake", delay=early, group=head.namespace)
            return

        def build(now: Head, moment: Moment) -> Change | None:
            if not _backs_off(now) or now.execution != head.execution:
                return None
            return transitions.wait_over(now, moment)

        await self._changes.make(head, build)


def _backs_off(head: Head) -> bool:
    return head.state is State.QUEUED and head.wait is not None and head.wait.kind is not WaitKind.SPOT
