"""How an endpoint fares: the record, and every change that it can go through, as pure functions.

Two things are counted. *Failures* are attempts since the last one that was taken; an endpoint that has had nothing else for a day is
disabled. *Strikes* are those at its end in which it was silent, broken or overloaded; after some of them it is spared (a circuit
breaker), so that a dead endpoint costs one attempt now and then, however many deliveries wait for it. An answer in the 400s is a failure
and no strike: the endpoint is there, and says no to a message.

What is held back while it is spared is what was not tried yet. A delivery that has failed comes again at its own time, which is further
off with each failure: these are the probes of the breaker. One that is taken ends the pause, one that fails begins it anew; only where
none was made in a whole pause, a delivery that was not tried yet is. So an endpoint that takes a message at its second or third attempt
is never starved by the first attempts of others, and a dead one is tried by the same few deliveries all day.
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
"""How long it is spared: 5 s, then twice as long after each new delivery that shows that nothing is better; with jitter of a half."""
LONGEST_WISH: Final = timedelta(hours=1)
"""The longest that an endpoint may ask to be spared (Retry-After)."""
TRIAL: Final = timedelta(seconds=30)
"""How long the one attempt may take that shows how a spared endpoint fares; should its worker die, another makes one then."""
KEPT_HISTORY: Final = 20
GONE: Final = 410
SETTLED: Final = timedelta(seconds=30)
"""After so long nobody puts off a delivery any more because the endpoint was being spared: what workers know of it is fresher."""
_GOING: Final[dict[str, Any]] = {"strikes": 0, "pauses": 0, "paused_until": None, "asked_until": None, "on_trial": False}
_WELL: Final[dict[str, Any]] = {"failures": 0, "failing_since": None} | _GOING
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
    """Until when nothing is tried that was not tried yet."""
    asked_until: AwareDatetime | None = None
    """Until when it wants nothing at all (Retry-After)."""
    spared_at: AwareDatetime | None = None
    """When it was last being spared, its last moment among it, as long as deliveries may be waiting that were put off then."""
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
    return _changed(health, moment, **_WELL, spared_at=_last_spared(health, moment), last_success_at=moment.now)


def failed(health: EndpointHealth, answer: Answer, moment: Moment) -> EndpointHealth:
    """An attempt was not taken."""
    counted: dict[str, Any] = {
        "failures": health.failures + 1,
        "failing_since": health.failing_since or moment.now,
        "last_failure_at": moment.now,
        "last_failure": told(answer),
    }
    if not is_strike(answer):
        return _changed(health, moment, **_GOING | counted, spared_at=_last_spared(health, moment))
    strikes, pauses, until, asked = health.strikes + 1, health.pauses, health.paused_until, health.asked_until
    if until is not None and (until <= moment.now or health.on_trial):
        until = None
    if strikes >= STRIKES:
        # Within a pause it is an attempt of a delivery that had failed before, or one that was under way when the pause began.
        pauses += until is None
        pause = min(FIRST_PAUSE * 2.0 ** min(max(pauses, 1) - 1, 30), LAST_PAUSE) * (0.5 + moment.jitter / 2)
        until = max(until or moment.now, moment.now + pause)
    if wish := min(retry_after(answer.retry_after, moment.now), LONGEST_WISH):
        asked = max(asked or moment.now, moment.now + wish)
        until = max(until or moment.now, asked)
    return _changed(
        health,
        moment,
        **counted,
        strikes=strikes,
        pauses=pauses,
        paused_until=until,
        asked_until=asked,
        spared_at=moment.now if until is not None else health.spared_at,
        on_trial=False,
    )


def tried(health: EndpointHealth, moment: Moment) -> EndpointHealth:
    """Its pause is over, and one delivery that was not tried yet shows how it fares; the others go on waiting."""
    return _changed(health, moment, paused_until=moment.now + TRIAL, on_trial=True)


def disabled(health: EndpointHealth, moment: Moment, *, reason: str, by: str | None) -> EndpointHealth:
    """Nothing is sent to it any more, what waits in memory among it."""
    event = EndpointEvent(at=moment.now, change="disabled", reason=reason, by=by)
    return _told(health, event, moment, disabled=True, paused_until=None, on_trial=False)


def enabled(health: EndpointHealth, moment: Moment, *, by: str) -> EndpointHealth:
    """It begins anew: what was counted against it is forgotten. Who has not heard of it yet puts off deliveries as he did before."""
    event = EndpointEvent(at=moment.now, change="enabled", by=by)
    return _told(health, event, moment, **_WELL, spared_at=moment.now, disabled=False)


def rotated(health: EndpointHealth, moment: Moment, *, by: str) -> EndpointHealth:
    """It has a new secret."""
    return _told(health, EndpointEvent(at=moment.now, change="rotated", by=by), moment)


def drained(health: EndpointHealth, moment: Moment) -> EndpointHealth:
    """No delivery waits any more that was put off while it was being spared."""
    return _changed(health, moment, spared_at=None)


def spared_until(health: EndpointHealth, now: datetime, *, tried: bool) -> datetime | None:
    """Until when a delivery waits, one that was `tried` or a new one; None where it may be sent, were it as a trial.

    What ends a trial, or enables an endpoint, may come any moment, so that who waits for it asks again soon.
    """
    if health.disabled:
        return now + FIRST_PAUSE
    until = health.asked_until if tried else health.paused_until
    if until is None or until <= now:
        return None
    return min(until, now + FIRST_PAUSE) if health.on_trial else until


def may_go(health: EndpointHealth) -> bool:
    """Whether deliveries may go that were put off while it was being spared, and there may be any."""
    return health.spared_at is not None and health.paused_until is None and not health.disabled


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


def _last_spared(health: EndpointHealth, moment: Moment) -> datetime | None:
    """When one was last being spared that is well from now on: until now, where a pause had begun that nothing has ended."""
    return moment.now if health.paused_until is not None else health.spared_at


def _told(health: EndpointHealth, event: EndpointEvent, moment: Moment, **updates: Any) -> EndpointHealth:
    return _changed(health, moment, history=(*health.history, event)[-KEPT_HISTORY:], **updates)


def _changed(health: EndpointHealth, moment: Moment, **updates: Any) -> EndpointHealth:
    return health.model_copy(update=updates | {"stamp": moment.stamp})
