"""Writes changes, and rings the bell that each of them calls for."""

from __future__ import annotations

import random
from collections.abc import Callable

from shared.clock import Clock
from shared.errors import FleetError
from shared.ids import Ids
from shared.jobs.change import Change, Moment
from shared.jobs.model import Head, WaitKind
from shared.jobs.ports import Doorbell, JobStore, LostError
from shared.jobs.schedule import in_ready_list

Build = Callable[[Head, Moment], Change | None]
_MEETINGS = 20


class ContestedError(FleetError):
    """A job changed under every one of many tries to change it; somebody else looks after it."""


class Changes:
    """The one way for a worker to change a job."""

    def __init__(self, *, store: JobStore, doorbell: Doorbell, clock: Clock, ids: Ids, chance: random.Random) -> None:
        self._store = store
        self._doorbell = doorbell
        self._clock = clock
        self._ids = ids
        self._chance = chance

    def moment(self) -> Moment:
        """This moment, with a fresh nonce."""
        return Moment(now=self._clock.now(), stamp=self._ids.nonce(), jitter=self._chance.random())

    async def write(self, change: Change) -> Head:
        """Write one change as it is. Raises LostError when the job has changed since it was read."""
        head = await self._store.write(change)
        await self._announce(change)
        return head

    async def make(self, head: Head, build: Build) -> Head:
        """Build a change from the head and write it; where the job has changed meanwhile, build it anew from what it has become.

        `build` returns None where there is nothing to do (any more). Raises LostError when the job is gone.
        """
        for _ in range(_MEETINGS):
            change = build(head, self.moment())
            if change is None:
                return head
            try:
                return await self.write(change)
            except LostError as lost:
                if lost.current is None:
                    raise
                head = lost.current
        raise ContestedError(f"job {head.id} changed {_MEETINGS} times while it was to be changed")

    async def _announce(self, change: Change) -> None:
        """Tell the region's dispatchers what there is to do now. The sweeper finds what is not told."""
        head = change.after
        before = change.before
        if head.stop is not None and (before is None or before.stop != head.stop):
            await self._doorbell.ring(head.region, head.id, kind="stop", group=head.namespace)
        elif in_ready_list(head) and not (before is not None and before.region == head.region and in_ready_list(before)):
            await self._doorbell.ring(head.region, head.id, group=head.namespace)
        elif head.wait is not None and head.wait.kind is not WaitKind.SPOT:
            pause = (head.wait.until - head.updated_at).total_seconds()
            await self._doorbell.ring(head.region, head.id, kind="wake", delay=pause, group=head.namespace)
