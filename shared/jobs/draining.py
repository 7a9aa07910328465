"""What becomes of the jobs of a drained region, and what a resumption calls for: the sweeper's part.

A drain leaves a due mark at its region, so the sweeper finds it with what it reads anyway. It then goes through the region's jobs once;
those that come to be queued later have due marks of their own. A move is one conditional write, on a job that is queued and has the fence
that was read: of a claim and a move at the same time one is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from datetime import datetime, timedelta
from typing import Final, Protocol

import structlog

from shared.clock import Clock
from shared.errors import UnavailableError
from shared.jobs import transitions
from shared.jobs.change import Change, Moment
from shared.jobs.changes import Changes
from shared.jobs.model import Head, StopIntent, WaitKind
from shared.jobs.ports import Doorbell, JobStore, LostError
from shared.jobs.regions import RegionStatus, StatusChangedError, Statuses
from shared.jobs.states import State

log = structlog.get_logger()

AGAIN: Final = timedelta(seconds=60)
"""How soon a drained region is gone through again where something was left: no region was open, or a claim was still alive."""
CLAIMS_END: Final = timedelta(seconds=120)
"""How long after its drain a region may still get a claim: until dispatchers have read of it, and a claim that is under way has been
answered. For so long what runs is looked for again."""
_AT_ONCE: Final = 25


class OpenRegions(Protocol):
    """Chooses the region of a job that may run anywhere (`shared.jobs.placement`)."""

    async def open_region(self, gpus: int) -> str | None:
        """An open region; None where every one is drained. Raises UnavailableError."""
        ...


class Draining:
    """Sees to drained and resumed regions, and to the queued jobs of drained ones. Every step is conditional; any number may do it."""

    def __init__(
        self, *, store: JobStore, statuses: Statuses, placement: OpenRegions, changes: Changes, doorbell: Doorbell, clock: Clock
    ) -> None:
        self._store = store
        self._statuses = statuses
        self._placement = placement
        self._changes = changes
        self._doorbell = doorbell
        self._clock = clock

    async def status(self, region: str) -> RegionStatus:
        """Raises UnavailableError."""
        return await self._statuses.status(region)

    async def see_to_job(self, head: Head, status: RegionStatus, *, recheck: timedelta) -> None:
        """A queued job of a drained region is due: it is moved, or goes on waiting without a bell. Raises LostError, UnavailableError.

        `recheck` is how soon a job that waits for a price is looked at again: no price is asked for that nobody could use.
        """
        if await self._move(head, status):
            return
        moment = self._changes.moment()
        if head.wait is None:
            await self._changes.write(transitions.rung(head, moment))
        elif head.wait.kind is WaitKind.SPOT:
            await self._changes.write(transitions.still_waiting(head, moment.now + recheck, status.told, moment))
        else:
            await self._changes.write(transitions.wait_over(head, moment))

    async def see_to_region(self, region: str) -> None:
        """The region itself is due. Raises UnavailableError."""
        status, now = await self.status(region), self._clock.now()
        if status.due is None or status.due > now:
            return
        again: datetime | None = None
        if not status.drained:
            await self._doorbell.ring(region, f"region {region}")
        else:
            moved = await self._move_all(status) if status.move else True
            stopped = await self._interrupt_all(status, now) if status.interrupt else True
            again = None if moved and stopped else now + AGAIN
        try:
            await self._statuses.write(status, status.model_copy(update={"due": again}))
        except StatusChangedError:
            log.info("region drained or resumed meanwhile; looked at anew", region=region)

    async def _move_all(self, status: RegionStatus) -> bool:
        """Move what may run anywhere; whether nothing is left that might be moved later."""
        done = True
        async for heads in self._store.in_state(status.region, State.QUEUED):
            done &= await _all(self._moves(head, status) for head in heads if head.any_region)
        return done

    async def _moves(self, head: Head, status: RegionStatus) -> bool:
        try:
            return await self._move(head, status)
        except LostError:
            return True  # claimed, or ended: whatever it becomes, it has a due mark of its own

    async def _move(self, head: Head, status: RegionStatus) -> bool:
        """Whether the job was moved. Raises LostError where somebody else changed it first."""
        if not (status.move and head.any_region):
            return False
        target = await self._placement.open_region(head.gpus)
        if target is None or target == head.region:
            return False
        why = f": {status.reason}" if status.reason else ""
        message = f"from {head.region}, which is drained{why}, to {target}"
        await self._changes.write(transitions.moved(head, target, message, self._changes.moment(), by=status.by))
        return True

    async def _interrupt_all(self, status: RegionStatus, now: datetime) -> bool:
        """Ask for the end of everything that runs, as if its machines were taken away; whether nothing more can come to run."""
        why = f": {status.reason}" if status.reason else ""
        reason = f"{status.region} is drained{why}"
        done = status.since is not None and now - status.since > CLAIMS_END
        for state in (State.PENDING, State.RUNNING):
            async for heads in self._store.in_state(status.region, state):
                done &= await _all(self._interrupt(head, reason, status.by) for head in heads if head.stop is None)
        async for heads in self._store.in_state(status.region, State.CLAIMED):
            done &= not heads
        return done

    async def _interrupt(self, head: Head, reason: str, by: str | None) -> bool:
        execution = head.execution

        def build(now: Head, moment: Moment) -> Change | None:
            if now.execution != execution or not now.state.on_cluster:
                return None
            return transitions.stop_requested(now, StopIntent.INTERRUPTION, reason, by, moment)

        try:
            await self._changes.make(head, build)
        except LostError:
            return True
        return True


async def _all(deeds: Iterable[Awaitable[bool]]) -> bool:
    """Do them, some at a time; whether all were done. One to which the table gave no answer wasn't."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(deed: Awaitable[bool]) -> bool:
        async with room:
            try:
                return await deed
            except UnavailableError as error:
                log.warning("job of a drained region not seen to yet", error=str(error))
                return False

    return all(await asyncio.gather(*(one(deed) for deed in deeds)))
