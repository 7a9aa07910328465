"""What a change of a job is, and the four shapes that all of them have: a step, a silent step, the next execution, the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared.jobs.model import Event, EventType, Execution, Head, PodCounts, Spent, StopIntent, Wait, current_execution
from shared.jobs.schedule import first_ring
from shared.jobs.spending import cost_of_ended, spent_before
from shared.jobs.states import State, check

MAX_MESSAGE = 1000
"""Characters of a message; a head is to stay below 4 KB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A step of a job: the head as it was read (None for a new job), the head to be, and what is written with it."""

    before: Head | None
    after: Head
    events: tuple[Event, ...] = ()
    ended: Execution | None = None

    def counting(self, pods: PodCounts | None) -> Change:
        """The same change, whose event tells of the pods that the cluster counted."""
        return replace(self, events=tuple(event.model_copy(update={"pods": pods}) for event in self.events))

    def charging(self, cost: Spent) -> Change:
        """The same change, by somebody who knows what the execution has cost up to now: its event tells what the job has."""
        assert self.before is not None
        together = spent_before(self.before) + cost
        events = tuple(event.model_copy(update={"cost": together}) for event in self.events)
        if self.ended is None:
            return replace(self, events=events)
        after = self.after.model_copy(update={"spent": together})
        return replace(self, after=after, events=events, ended=self.ended.model_copy(update={"cost": cost}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """What a change needs of the world: the time, a nonce of its writer, and a number in [0, 1) to spread waits with."""

    now: datetime
    stamp: str
    jitter: float = 0.0


_FRESH_EXECUTION: dict[str, Any] = {
    "claim": None,
    "object": None,
    "stop": None,
    "committed_at": None,
    "started_at": None,
    "apply_failures": 0,
}


def next_execution(
    head: Head,
    moment: Moment,
    kind: EventType,
    reason: str,
    message: str | None,
    *,
    wait: Wait | None,
    **updates: Any,
) -> Change:
    """The current execution ends and the job goes back to the queue with the next one."""
    assert head.stop is None or head.stop.intent is not StopIntent.CANCEL, "a job that is to be cancelled gets no further execution"
    ended = _ended(head, State.FAILED, moment.now, reason, message)
    made = step(
        head,
        moment,
        kind,
        state=State.QUEUED,
        reason=reason,
        message=message,
        **(_FRESH_EXECUTION | {"execution": head.execution + 1, "wait": wait, "rings": 0} | updates),
        ring_at=first_ring(moment.now),
    )
    return _ending(Change(before=head, after=made.after, events=made.events, ended=ended))


def end(
    head: Head,
    moment: Moment,
    kind: EventType,
    state: State,
    *,
    reason: str | None,
    message: str | None,
    by: str | None = None,
    **updates: Any,
) -> Change:
    """The job reaches a terminal state, and its execution with it."""
    made = step(
        head,
        moment,
        kind,
        state=state,
        reason=reason,
        message=message,
        by=by,
        stop=None,
        wait=None,
        ring_at=None,
        **updates,
    )
    return _ending(Change(before=head, after=made.after, events=made.events, ended=current_execution(made.after) if head.claim else None))


def _ending(change: Change) -> Change:
    """A change that ends an execution, or a job that has none, tells what the job has cost."""
    assert change.before is not None
    return change.charging(cost_of_ended(change.before))


def _ended(head: Head, state: State, at: datetime, reason: str, message: str | None) -> Execution | None:
    execution = current_execution(head)
    if execution is None:
        return None
    return execution.model_copy(update={"state": state, "finished_at": at, "reason": reason, "message": message})


def step(
    head: Head,
    moment: Moment,
    kind: EventType,
    *,
    state: State | None = None,
    by: str | None = None,
    reason: str | None = None,
    message: str | None = None,
    offset: int = 0,
    **updates: Any,
) -> Change:
    """A change with one event; `offset` counts the events that come before it in the same change.

    The head tells the reason and message of its newest event: why the job is where it is.
    """
    message = message if message is None or len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 3]}..."
    target = state or head.state
    check(head.state, target)
    number = head.revision + 1 + offset
    execution = head.execution
    event = Event(
        job_id=head.id,
        namespace=head.namespace,
        number=number,
        type=kind,
        at=moment.now,
        state=target,
        execution=execution,
        by=by,
        reason=reason,
        message=message,
    )
    told = {"reason": reason, "message": message}
    written = {"state": target, "revision": number, "stamp": moment.stamp, "updated_at": moment.now}
    after = head.model_copy(update=told | updates | written)
    return Change(before=head, after=after, events=(event,))


def silent(head: Head, moment: Moment, **updates: Any) -> Change:
    """A change that tells of nothing: it keeps the revision, so that it never stands in the way of one that does."""
    return Change(before=head, after=head.model_copy(update=updates | {"stamp": moment.stamp}))
