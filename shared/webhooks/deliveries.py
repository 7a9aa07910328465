"""One event on its way to one endpoint: the record, and every change that it can go through, as pure functions.

A delivery that has not come to its end always has a time at which somebody must look at it (`next_at`). While it is being sent that is the
end of a short lease, so a worker that dies leaves nothing behind that isn't found again: an event arrives at least once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final

from pydantic import AwareDatetime, Field

from shared.errors import ConflictError, clean
from shared.jobs.change import Moment
from shared.jobs.model import Event, Record
from shared.webhooks.model import Webhook, WebhookEvent
from shared.webhooks.ports import Answer, Failure

LIFETIME: Final = timedelta(hours=24)
"""How long a delivery is tried."""
LEASE: Final = timedelta(seconds=60)
"""How long a worker may take from the moment it takes a delivery on until it has written what came of it, unless an installation says
otherwise."""
FIRST_RETRY: Final = timedelta(seconds=5)
LAST_RETRY: Final = timedelta(hours=1)
"""The window in which the n-th retry falls: 5 s, doubling to an hour. With full jitter (anywhere in the window, which spreads those that
failed together best: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/) that is some 55 attempts in 24 hours."""
SHORTEST_RETRY: Final = timedelta(seconds=1)
KEPT_ATTEMPTS: Final = 5
"""The latest attempts that a record tells of; it counts all of them."""
KEPT_TEXT: Final = 256
"""Characters of an answer that are kept."""
NOT_FINAL: Final = frozenset({408, 425, 429})
"""Statuses of the 400s that don't end a delivery: timeout, too early, too many. Redirects end it, since nobody follows them. 410 (gone)
ends its endpoint too: `Health.answered`."""
SPARED: Final = "its endpoint is being spared; it goes when that is well again"
"""Why one waits that was not tried."""
DELETED: Final = "webhook deleted"
"""Why deliveries failed that were on their way when their webhook was deleted."""


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"  # an attempt is due or under way
    HELD = "held"  # an earlier event of the same job is still on its way to the same endpoint
    DELIVERED = "delivered"  # the endpoint has taken it
    FAILED = "failed"  # given up; `reason` says why. It can be sent again

    @property
    def final(self) -> bool:
        """Whether nothing follows, unless somebody asks for it."""
        return self in (DeliveryState.DELIVERED, DeliveryState.FAILED)


class Attempt(Record):
    """One attempt and what came of it; `latency` in milliseconds."""

    at: AwareDatetime
    status: int | None = None
    failure: Failure | None = None
    latency: int = 0
    text: str = ""


class Delivery(Record):
    """One event for one endpoint. `stamp` is the nonce of the last writer, and what the next one's write is conditional on."""

    webhook_id: str
    job_id: str
    number: int
    type: WebhookEvent
    namespace: str
    at: AwareDatetime
    """The time of the event."""

    state: DeliveryState
    stamp: str
    created_at: AwareDatetime
    deadline: AwareDatetime
    next_at: AwareDatetime | None = None
    spared: bool = False
    """It waits because its endpoint is being spared, and is let go when that is well again: `next_at` is for the case that nobody does."""
    finished_at: AwareDatetime | None = None
    reason: str | None = None
    attempts: int = 0
    failures: int = 0
    """Attempts that failed, one after the other, since it was made or sent again."""
    latest: tuple[Attempt, ...] = Field(default=())
    """The latest attempts, oldest first."""

    @property
    def tried(self) -> bool:
        """Whether it has failed since it was made or sent again: then it comes at its own time, which no other delivery decides."""
        return self.failures > 0

    @property
    def message_id(self) -> str:
        """What receivers know the event by, at every attempt."""
        return message_id(self.job_id, self.number)


def message_id(job_id: str, number: int) -> str:
    """The id of an event's message."""
    return f"{job_id}#{number}"


def made(event: Event, kind: WebhookEvent, webhook: Webhook, namespace: str, moment: Moment, *, lease: timedelta = LEASE) -> Delivery:
    """A new delivery, which its maker sends at once. One to an endpoint that is disabled is born failed, so that it can be sent again."""
    delivery = Delivery(
        webhook_id=webhook.id,
        job_id=event.job_id,
        number=event.number,
        type=kind,
        namespace=namespace,
        at=event.at,
        state=DeliveryState.PENDING,
        stamp=moment.stamp,
        created_at=moment.now,
        deadline=moment.now + LIFETIME,
        next_at=moment.now + lease,
    )
    return given_up(delivery, disabled(webhook), moment) if webhook.disabled_at is not None else delivery


def leased(delivery: Delivery, moment: Moment, *, lease: timedelta = LEASE) -> Delivery:
    """Somebody takes a due delivery on, and sends it before the lease ends."""
    return _changed(delivery, moment, state=DeliveryState.PENDING, next_at=moment.now + lease)


def waiting(delivery: Delivery, until: datetime, moment: Moment, *, spared: bool = False) -> Delivery:
    """It waits, and no attempt was made: its endpoint is being spared, or nobody has room to send it. None too late for a last attempt."""
    return _changed(delivery, moment, state=DeliveryState.PENDING, next_at=until, spared=spared)


def held(delivery: Delivery, until: datetime, moment: Moment) -> Delivery:
    """An earlier event of the same job is still on its way. Whoever brings that to its end lets this one go; `until` is for the case that
    he dies between."""
    return _changed(delivery, moment, state=DeliveryState.HELD, next_at=until)


def attempted(delivery: Delivery, answer: Answer, moment: Moment) -> Delivery:
    """An attempt was made: delivered by any status of the 200s, tried again later, or given up."""
    attempt = Attempt(
        at=moment.now,
        status=answer.status,
        failure=answer.failure,
        latency=answer.latency,
        text=clean(answer.text[:KEPT_TEXT]),
    )
    counted = delivery.model_copy(
        update={"attempts": delivery.attempts + 1, "latest": (*delivery.latest, attempt)[-KEPT_ATTEMPTS:]},
    )
    status = answer.status
    if status is not None and 200 <= status < 300:
        return _changed(counted, moment, state=DeliveryState.DELIVERED, next_at=None, finished_at=moment.now, failures=0, reason=None)
    failures = delivery.failures + 1
    counted = counted.model_copy(update={"failures": failures})
    if status is not None and 300 <= status < 500 and status not in NOT_FINAL:
        return given_up(counted, f"answered {status}", moment)
    if moment.now >= delivery.deadline:
        return given_up(counted, f"no attempt of {counted.attempts} has succeeded; the last: {_told(answer)}", moment)
    pause = max(retry_delay(failures, moment.jitter), retry_after(answer.retry_after, moment.now))
    return _changed(
        counted,
        moment,
        state=DeliveryState.PENDING,
        next_at=min(moment.now + pause, delivery.deadline),
        reason=_told(answer),
    )


def given_up(delivery: Delivery, reason: str, moment: Moment) -> Delivery:
    """It will not be sent, unless somebody asks for it."""
    return _changed(delivery, moment, state=DeliveryState.FAILED, next_at=None, finished_at=moment.now, reason=reason)


def redelivered(delivery: Delivery, moment: Moment, *, behind: bool = False) -> Delivery:
    """Somebody wants it sent again, under the same id, and tried for another 24 hours; `behind` an earlier one of its job it is held.

    It is due at once in any case: whoever looks at it sees whether the earlier one is still on its way. Raises ConflictError for one that
    is itself.
    """
    if not delivery.state.final:
        raise ConflictError(f"Delivery of {delivery.message_id} is {delivery.state}; it is still being sent")
    return _changed(
        delivery,
        moment,
        state=DeliveryState.HELD if behind else DeliveryState.PENDING,
        next_at=moment.now,
        deadline=moment.now + LIFETIME,
        finished_at=None,
        failures=0,
        reason=None,
    )


def retry_delay(failures: int, jitter: float) -> timedelta:
    """How long to wait after the `failures`-th failure in a row (from 1); `jitter` in [0, 1)."""
    window = min(FIRST_RETRY * 2.0 ** min(failures - 1, 30), LAST_RETRY)
    return max(window * jitter, SHORTEST_RETRY)


def retry_after(header: str | None, now: datetime) -> timedelta:
    """How long an answer asks to wait: seconds or a date (RFC 9110, 10.2.3), a day at most; nothing where it can't be read."""
    text = (header or "").strip()
    try:
        if text.isascii() and text.isdigit():
            return min(timedelta(seconds=int(text[:10])), LIFETIME)
        moment = parsedate_to_datetime(text)
        asked = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    except (ValueError, TypeError, OverflowError):
        return timedelta()
    return min(max(asked, timedelta()), LIFETIME)


def disabled(webhook: Webhook) -> str:
    """Why nothing is sent to an endpoint that is disabled."""
    return f"the webhook is disabled: {webhook.disabled_reason}" if webhook.disabled_reason else "the webhook is disabled"


def _told(answer: Answer) -> str:
    return f"answered {answer.status}" if answer.status is not None else str(answer.failure or "no answer")


def _changed(delivery: Delivery, moment: Moment, **updates: Any) -> Delivery:
    return delivery.model_copy(update={"spared": False} | updates | {"stamp": moment.stamp})
