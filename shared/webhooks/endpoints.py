"""How an endpoint fares: the record, and every change that it can go through, as pure functions.

Two things are counted. *Failures* are attempts since the last one that was taken; an endpoint that has had nothing else for a day is
disabled. *Strikes* are those at its end in which it was silent, broken or overloaded; after some of them it is spared (a circuit
breaker), so that a dead endpoint costs one attempt now and then, however many deliveries wait for it. An answer in the 400s is a failure
and no strike: the endpoint is there, and says no to a message.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, Literal

from pydantic import AwareDatetime

from shared.jobs.change import Moment
from shared.jobs.model import Record
from shared.webhooks.deliveries import retry_after
from shared.webhooks.ports import Answer, Failure

DISABLE_AFTER: Final = timedelta(hours=24)
"""After so long without an attempt that was taken an endpoint is disabled, unless an installation says otherwise,"""
DISABLE_FAILURES: Final = 10
"""and after so many: an endpoint that is told of something once a day has not failed for a day when one message failed."""
STRIKES: Final = 5
"""After so many in a row the endpoint is spared."""
FIRST_PAUSE: Final = timedelta(seconds=5)
LAST_PAUSE: Final = timedelta(minutes=5)
"""How long it is spared: 5 s, then twice as long after each attempt that shows that nothing is better; with jitter of a half."""
LONGEST_WISH: Final = timedelta(hours=1)
"""The longest that an endpoint may ask to be spared (Retry-After)."""
TRIAL: Final = timedelta(seconds=30)
"""How long the one attempt may take that shows how a spared endpoint fares; should its worker die, another makes one then."""
KEPT_HISTORY: Final = 20
GONE: Final = 410
_WELL: Final[dict[str, Any]] = {"failures": 0, "failing_since": None, "strikes": 0, "pauses": 0, "paused_until": None, "on_trial": False}
_OVERLOADED: Final = frozenset({408, 425, 429})


class EndpointEvent(Record):
    """What was done to a webhook. `by` is a caller, or None for the fleet itself."""

    at: AwareDatetime
    change: Literal["disabled", "enabled", "rotated"]
    reason: str | None = None
    by: str | None = None


class EndpointHealth(Record):
    """How an endpoint fares. `stamp` is the nonce of the last writer, and what the next one's write is conditional on."""

    webhook_id: str
    stamp: str = ""
    failures: int = 0
    failing_since: AwareDatetime | None = None
    strikes: int = 0
    pauses: int = 0
    """How often it has been spared since it was last well."""
    paused_until: AwareDatetime | None = None
    on_trial: bool = False
    """Whether somebody is trying it. Nobody else sends anything until `paused_until`."""
    disabled: bool = False
    """As its webhook's record says: for who holds that record as it was before."""
    last_failure_at: AwareDatetime | None = None
    last_failure: str | None = None
    last_success_at: AwareDatetime | None = None
    history: tuple[EndpointEvent, ...] = ()
    """The latest events, oldest first."""


def succeeded(health: EndpointHealth, moment: Moment) -> EndpointHealth:
    """An attempt was taken: whatever was wrong is over."""
    return _changed(health, moment, **_WELL, last_success_at=moment.now)


def failed(health: EndpointHealth, answer: Answer, moment: Moment) -> EndpointHealth:
    """An attempt was not taken."""
    struck = is_strike(answer)
    strikes = health.strikes + 1 if struck else 0
    until, pauses = health.paused_until if struck else None, health.pauses if struck else 0
    # Attempts that were under way when a pause began end within it, and say nothing that isn't known.
    going_on = until is not None and until > moment.now and not health.on_trial
    if not going_on:
        until = None
        if strikes >= STRIKES:
            pauses += 1
            until = moment.now + min(FIRST_PAUSE * 2.0 ** min(pauses - 1, 30), LAST_PAUSE) * (0.5 + moment.jitter / 2)
    if struck and (wish := min(retry_after(answer.retry_after, moment.now), LONGEST_WISH)):
        until = max(until or moment.now, moment.now + wish)
    return _changed(
        health,
        moment,
        failures=health.failures + 1,
        failing_since=health.failing_since or moment.now,
        strikes=strikes,
        pauses=pauses,
        paused_until=until,
        on_trial=False,
        last_failure_at=moment.now,
        last_failure=told(answer),
    )


def tried(health: EndpointHealth, moment: Moment) -> EndpointHealth:
    """Its pause is over, and one attempt shows how it fares; all others go on sparing it."""
    return _changed(health, moment, paused_until=moment.now + TRIAL, on_trial=True)


def disabled(health: EndpointHealth, moment: Moment, *, reason: str, by: str | None) -> EndpointHealth:
    """Nothing is sent to it any more, what waits in memory among it."""
    event = EndpointEvent(at=moment.now, change="disabled", reason=reason, by=by)
    return _told(health, event, moment, disabled=True, paused_until=None, on_trial=False)


def enabled(health: EndpointHealth, moment: Moment, *, by: str) -> EndpointHealth:
    """It begins anew: what was counted against it is forgotten."""
    return _told(health, EndpointEvent(at=moment.now, change="enabled", by=by), moment, **_WELL, disabled=False)


def rotated(health: EndpointHealth, moment: Moment, *, by: str) -> EndpointHealth:
    """It has a new secret."""
    return _told(health, EndpointEvent(at=moment.now, change="rotated", by=by), moment)


def spared_until(health: EndpointHealth, now: datetime) -> datetime | None:
    """Until when nothing is sent; None where something may be, were it for a trial. What ends a trial, or enables an endpoint, may come
    any moment, so that who waits for it asks again soon."""
    if health.disabled:
        return now + FIRST_PAUSE
    until = health.paused_until
    if until is None or until <= now:
        return None
    return min(until, now + FIRST_PAUSE) if health.on_trial else until


def limit(health: EndpointHealth, answer: Answer, now: datetime, *, after: timedelta = DISABLE_AFTER) -> str | None:
    """Why an endpoint that has just failed is to be disabled; None where it isn't."""
    if answer.status == GONE:
        return "it answered 410 (Gone)"
    since = health.failing_since
    if since is None or health.failures < DISABLE_FAILURES or now - since < after:
        return None
    return f"none of {health.failures} attempts since {since:%Y-%m-%d %H:%M} UTC was taken; the last: {told(answer)}"


def is_success(answer: Answer) -> bool:
    """Whether the endpoint took the message."""
    return answer.status is not None and 200 <= answer.status < 300


def is_strike(answer: Answer) -> bool:
    """Whether an attempt says that more of them would do no good now."""
    if answer.status is None:
        return answer.failure not in {None, Failure.OURS}
    return answer.status >= 500 or answer.status in _OVERLOADED


def told(answer: Answer) -> str:
    """An answer in a few words."""
    if answer.status is not None:
        return f"answered {answer.status}"
    return f"{answer.failure or 'no answer'}: {answer.text}" if answer.text else str(answer.failure or "no answer")


def _told(health: EndpointHealth, event: EndpointEvent, moment: Moment, **updates: Any) -> EndpointHealth:
    return _changed(health, moment, history=(*health.history, event)[-KEPT_HISTORY:], **updates)


def _changed(health: EndpointHealth, moment: Moment, **updates: Any) -> EndpointHealth:
    return health.model_copy(update=updates | {"stamp": moment.stamp})
