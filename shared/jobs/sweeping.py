"""Whatever is overdue: step 7 of the protocol. The sweeper reads only due marks, and each mark only when its time has come."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import structlog

from shared.clock import Clock
from shared.errors import UnavailableError
from shared.jobs import transitions
from shared.jobs.change import Change, Moment
from shared.jobs.changes import Changes
from shared.jobs.dispatch import LEASE
from shared.jobs.draining import Draining
from shared.jobs.model import Head, StopIntent, WaitKind, earliest
from shared.jobs.ports import Doorbell, JobStore, LostError, SpotPrices
from shared.jobs.regions import RegionStatus
from shared.jobs.schedule import due_at, execution_deadline, queue_deadline, total_deadline
from shared.jobs.states import State

log = structlog.get_logger()

SPOT_RECHECK = timedelta(seconds=60)
"""How often a job that waits for a spot price is looked at; EC2's price history changes at most every few minutes."""
IDLE = timedelta(seconds=60)
"""How long a sweeper lets pass between two looks at a region in which nothing is due."""
_PAGE = 100
_PAGES = 50


class Sweeper:
    """Sees to overdue claims, unrung bells, ended waits, deadlines and stops. Any number may run; each step is conditional."""

    def __init__(
        self,
        *,
        store: JobStore,
        changes: Changes,
        doorbell: Doorbell,
        prices: SpotPrices,
        draining: Draining,
        clock: Clock,
        lease: timedelta = LEASE,
        idle: timedelta = IDLE,
    ) -> None:
        self._store = store
        self._changes = changes
        self._doorbell = doorbell
        self._prices = prices
        self._draining = draining
        self._clock = clock
        self._lease = lease
        self._idle = idle
        self._last: dict[str, datetime] = {}
        self._grace: dict[str, datetime] = {}

    async def sweep(self, region: str) -> datetime | None:
        """See to all that is due in a region; returns when to look again, None where nothing asks for it."""
        now = self._clock.now()
        grace = self._grace_until(region, now)
        round_ = _Round(self._doorbell, self._draining, region)
        following: datetime | None = None
        for _ in range(_PAGES):
            marks = await self._store.due(region, _PAGE)
            following = next((at for at, _ in marks if at > now), None)
            due = [job_id for at, job_id in marks if at <= now]
            overdue = [job_id for job_id in due if job_id is not None]
            heads = await self._store.heads(overdue) if overdue else {}
            moved = [await self._see_to(head, now, round_) for head in heads.values()]
            if len(overdue) < len(due):
                await self._draining.see_to_region(region)
            if len(due) < _PAGE or not any(moved):
                break
        self._last[region] = self._clock.now()
        return earliest(following, grace if grace > now else None)

    def _grace_until(self, region: str, now: datetime) -> datetime:
        """Until when claims of a region are left alone, because this sweeper was away and so may have been all others.

        Away is longer than a lease beyond the usual pause: a pause as long as the lease would otherwise begin a new grace each time, and no
        claim would ever lapse.
        """
        last = self._last.get(region)
        if last is None or now - last > self._lease + self._idle:
            self._grace[region] = now + self._lease
        return self._grace[region]

    async def _see_to(self, head: Head, now: datetime, round_: _Round) -> bool:
        """Do what is due for one job; False where it stays due (a claim in its grace)."""
        due = due_at(head)
        if due is None or due > now:
            return True
        if head.state is State.CLAIMED and head.stop is None and now < self._grace[head.region]:
            return False
        try:
            await self._step(head, now, round_)
        except LostError:
            pass
        except UnavailableError as error:
            log.warning("due job not seen to yet", job=head.id, error=str(error))
            return False
        return True

    async def _step(self, head: Head, now: datetime, round_: _Round) -> None:
        if _passed_deadline(head, now) is not None:
            await self._changes.make(head, partial(_stop_for_deadline, now))
        elif head.stop is not None:
            await self._changes.write(transitions.rung(head, self._changes.moment()))
            await self._doorbell.ring(head.region, head.id, kind="stop", group=head.namespace)
        elif head.state is State.CLAIMED:
            await self._changes.write(transitions.claim_lapsed(head, self._changes.moment()))
        elif (status := await round_.drained()) is not None:
            await self._draining.see_to_job(head, status, recheck=SPOT_RECHECK)
        elif head.wait is not None and head.wait.kind is WaitKind.SPOT:
            await self._check_price(head, now)
        elif head.wait is not None:
            await self._changes.write(transitions.wait_over(head, self._changes.moment()))
        elif head.state is State.QUEUED:
            await self._changes.write(transitions.rung(head, self._changes.moment()))
            await round_.ring(head)

    async def _check_price(self, head: Head, now: datetime) -> None:
        """Let a job that waits for a spot price go when the price is under its cap; an unknown price keeps it waiting."""
        assert head.spot is not None
        kind, cap = head.spot.instance_type, head.spot.max_price
        price = await self._prices.price(head.region, kind)
        spot = head.spot.model_copy(update={"observed_price": price, "checked_at": now})
        moment = self._changes.moment()
        if price is not None and price <= cap:
            message = f"spot price of {kind} is {price} USD/hour, not above the cap of {cap}"
            await self._changes.write(transitions.ready(head, message, moment, spot=spot))
            return
        known = (
            f"spot price of {kind} is {price} USD/hour, above the cap of {cap}"
            if price is not None
            else f"no spot price of {kind} is known"
        )
        await self._changes.write(transitions.still_waiting(head, now + SPOT_RECHECK, f"{known} in {head.region}", moment, spot=spot))


class _Round:
    """One sweep of a region: it rings there at most once, and asks at most once whether it is drained, however many queued jobs are due."""

    def __init__(self, doorbell: Doorbell, draining: Draining, region: str) -> None:
        self._doorbell = doorbell
        self._draining = draining
        self._region = region
        self._rung = False
        self._status: RegionStatus | None = None

    async def drained(self) -> RegionStatus | None:
        """The region's status where it is drained."""
        if self._status is None:
            self._status = await self._draining.status(self._region)
        return self._status if self._status.drained else None

    async def ring(self, head: Head) -> None:
        if not self._rung:
            self._rung = True
            await self._doorbell.ring(self._region, head.id, group=head.namespace)


def _stop_for_deadline(now: datetime, head: Head, moment: Moment) -> Change | None:
    """Judged anew for what the job has become: a limit of one execution, or of the wait for the first, says nothing about the next."""
    passed = _passed_deadline(head, now)
    if passed is None:
        return None
    intent, reason = passed
    return transitions.stop_requested(head, intent, reason, None, moment)


def _passed_deadline(head: Head, now: datetime) -> tuple[StopIntent, str] | None:
    """The first limit that a job has overstepped and is not yet being stopped for."""
    if head.stop is not None or head.state.terminal:
        return None
    limits = head.timeouts
    total = total_deadline(head)
    if total is not None and total <= now:
        return StopIntent.TOTAL_TIMEOUT, f"took longer than its total limit of {limits.total_seconds} s"
    queue = queue_deadline(head)
    if head.state is State.QUEUED and queue is not None and queue <= now:
        return StopIntent.QUEUE_TIMEOUT, f"waited in the queue longer than its limit of {limits.queue_seconds} s"
    execution = execution_deadline(head)
    if head.state.on_cluster and execution is not None and execution <= now:
        return StopIntent.EXECUTION_TIMEOUT, f"the execution ran longer than its limit of {limits.execution_seconds} s"
    return None
