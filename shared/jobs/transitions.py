"""Every change that a job can go through, as pure functions from a head and a fact to a `Change`.

The store writes a change in one transaction, on condition that the head still has the revision and fence that the change was made
from; so no function here needs to know who else is at work.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from shared.jobs import retry
from shared.jobs.change import Change, Moment, end, next_execution, silent, step
from shared.jobs.model import (
    Claim,
    ClusterObject,
    Event,
    EventType,
    Head,
    Stop,
    StopIntent,
    Wait,
    WaitKind,
)
from shared.jobs.schedule import first_ring
from shared.jobs.spending import NOTHING
from shared.jobs.states import State

UNSCHEDULABLE = "unschedulable"
"""The reason of a job whose pods find no place."""

STOP_RETRY = timedelta(seconds=10)
"""How long a stop may go unconfirmed before the sweeper has it tried again."""


def submitted(head: Head, *, message: str | None = None) -> Change:
    """A new job is born with its first event; `head.revision` must be 1."""
    event = Event(
        job_id=head.id,
        namespace=head.namespace,
        number=1,
        type=EventType.SUBMITTED,
        at=head.submitted_at,
        state=State.QUEUED,
        execution=1,
        by=head.submitted_by,
        message=message,
    )
    return Change(before=None, after=head, events=(event,))


def committed(head: Head, placed: ClusterObject, moment: Moment) -> Change:
    """The claim's holder makes an object *the* object of the execution. The history now tells of the claim as well."""
    assert head.claim is not None
    claimed = Event(
        job_id=head.id,
        namespace=head.namespace,
        number=head.revision + 1,
        type=EventType.CLAIMED,
        at=head.claim.claimed_at,
        state=State.CLAIMED,
        execution=head.execution,
        by=head.claim.owner,
    )
    made = step(
        head,
        moment,
        EventType.COMMITTED,
        state=State.PENDING,
        by=head.claim.owner,
        message=f"{placed.name} ({placed.uid})",
        offset=1,
        object=placed,
        committed_at=moment.now,
        apply_failures=0,
        ring_at=None,
    )
    return Change(before=head, after=made.after.model_copy(update={"message": None}), events=(claimed, *made.events))


def running(head: Head, started_at: datetime | None, moment: Moment) -> Change:
    """A pod of the committed object runs."""
    return step(head, moment, EventType.RUNNING, state=State.RUNNING, started_at=started_at or moment.now)


def unschedulable(head: Head, message: str, moment: Moment) -> Change:
    """The cluster finds no place for a pod; the message says why, in the scheduler's words. The job goes on waiting."""
    return step(head, moment, EventType.UNSCHEDULABLE, reason=UNSCHEDULABLE, message=message)


def succeeded(
    head: Head, finished_at: datetime | None, moment: Moment, *, started_at: datetime | None = None, message: str | None = None
) -> Change:
    """The cluster says that the committed object is complete. Clusters tell times in whole seconds: no end is before its start."""
    started = head.started_at or started_at
    finished = finished_at or moment.now
    return end(
        head,
        moment,
        EventType.SUCCEEDED,
        State.SUCCEEDED,
        finished_at=max(finished, started) if started else finished,
        started_at=started,
        reason=None,
        message=message,
    )


def attempt_failed(head: Head, reason: str, message: str | None, moment: Moment) -> Change:
    """The execution failed; the retry policy decides whether another follows."""
    attempts = head.attempts + 1
    if not retry.may_retry(head.retry, attempts):
        return failed(head, reason, message, moment, attempts=attempts)
    until = moment.now + retry.delay(head.retry, attempts, moment.jitter)
    return next_execution(
        head,
        moment,
        EventType.RETRY,
        reason,
        f"attempt {attempts} of {head.retry.max_attempts} failed: {message or reason}",
        wait=Wait(kind=WaitKind.RETRY, until=until),
        attempts=attempts,
    )


def failed(head: Head, reason: str, message: str | None, moment: Moment, **updates: Any) -> Change:
    """The job has failed for good."""
    return end(head, moment, EventType.FAILED, State.FAILED, finished_at=moment.now, reason=reason, message=message, **updates)


def interrupted(head: Head, message: str | None, moment: Moment) -> Change:
    """The execution lost its machine (spot, drain): a new one follows at once, and no attempt is used up."""
    interruptions = head.interruptions + 1
    if not retry.may_continue_after_interruption(head.retry, interruptions):
        return failed(head, "interrupted too often", f"interrupted {interruptions} times: {message}", moment, interruptions=interruptions)
    return next_execution(
        head, moment, EventType.INTERRUPTED, "interrupted", message, wait=spot_wait(head, moment), interruptions=interruptions
    )


def not_started(head: Head, message: str, moment: Moment) -> Change:
    """The committed object was gone before it had been released, so nothing ran: a new execution follows."""
    return next_execution(head, moment, EventType.NOT_STARTED, "not started", message, wait=None).charging(NOTHING)


def claim_lapsed(head: Head, moment: Moment) -> Change:
    """The lease of a claim ran out: the job goes back into the ready list under the same execution."""
    assert head.claim is not None
    message = f"claimed at {head.claim.claimed_at.isoformat()}, expired at {head.claim.expires_at.isoformat()}"
    return _back_in_the_queue(head, EventType.CLAIM_LAPSED, message, moment, by=head.claim.owner)


def claim_returned(head: Head, reason: str, moment: Moment, *, cluster_refused: bool) -> Change:
    """The holder gives a claim back: at once when it shuts down, after a wait when the cluster accepts nothing."""
    if not cluster_refused:
        return _back_in_the_queue(head, EventType.CLAIM_RETURNED, reason, moment)
    failures = head.apply_failures + 1
    if not retry.may_retry(retry.CLUSTER_BACKOFF, failures):
        return failed(head, "cluster unavailable", f"given back {failures} times; the last: {reason}", moment)
    until = moment.now + retry.delay(retry.CLUSTER_BACKOFF, failures, moment.jitter)
    wait = Wait(kind=WaitKind.CLUSTER, until=until)
    return _back_in_the_queue(head, EventType.CLAIM_RETURNED, reason, moment, apply_failures=failures, wait=wait)


def _back_in_the_queue(head: Head, kind: EventType, message: str, moment: Moment, *, by: str | None = None, **updates: Any) -> Change:
    ring_at = first_ring(moment.now)
    return step(head, moment, kind, state=State.QUEUED, by=by, message=message, claim=None, ring_at=ring_at, rings=0, **updates)


def stop_requested(head: Head, intent: StopIntent, reason: str, by: str | None, moment: Moment) -> Change | None:
    """Somebody wants the job, or this execution of it, to end. None where a mark stands that this one adds nothing to.

    A queued job ends at once. Any other is marked; it ends when the cluster confirms that its object is gone.
    """
    if head.state is State.QUEUED:
        if intent is StopIntent.CANCEL:
            return end(head, moment, EventType.CANCELLED, State.CANCELLED, by=by, finished_at=moment.now, reason=reason, message=None)
        return failed(head, intent.value.replace("_", " "), reason, moment)
    if head.stop is not None and (head.stop.intent is StopIntent.CANCEL or intent is not StopIntent.CANCEL):
        return None
    stop = Stop(intent=intent, reason=reason, requested_at=moment.now, requested_by=by)
    return step(
        head,
        moment,
        EventType.STOP_REQUESTED,
        by=by,
        reason=intent.value,
        message=reason,
        stop=stop,
        ring_at=moment.now + STOP_RETRY,
    )


def stopped(head: Head, moment: Moment) -> Change:
    """The cluster confirmed that the object of a job marked to be stopped is gone."""
    assert head.stop is not None
    match head.stop.intent:
        case StopIntent.CANCEL:
            return end(
                head,
                moment,
                EventType.CANCELLED,
                State.CANCELLED,
                by=head.stop.requested_by,
                finished_at=moment.now,
                reason=head.stop.reason,
                message=None,
            )
        case StopIntent.EXECUTION_TIMEOUT:
            return attempt_failed(head, "execution timeout", head.stop.reason, moment)
        case StopIntent.TOTAL_TIMEOUT | StopIntent.QUEUE_TIMEOUT:
            return failed(head, head.stop.intent.value.replace("_", " "), head.stop.reason, moment)
        case StopIntent.REFUSAL:
            return failed(head, "refused by the cluster", head.stop.reason, moment)
        case StopIntent.INTERRUPTION:
            return interrupted(head, head.stop.reason, moment)


def wait_over(head: Head, moment: Moment) -> Change:
    """A back-off has ended. A job that runs on spot only goes on waiting: for a look at the price, which is due at once."""
    assert head.wait is not None
    if head.spot is not None:
        return silent(head, moment, wait=spot_wait(head, moment))
    return ready(head, f"the wait ({head.wait.kind}) is over", moment)


def ready(head: Head, message: str, moment: Moment, **updates: Any) -> Change:
    """A wait is over: the job takes its place in the ready list."""
    return step(head, moment, EventType.READY, message=message, wait=None, ring_at=first_ring(moment.now), rings=0, **updates)


def moved(head: Head, region: str, message: str, moment: Moment, *, by: str | None) -> Change:
    """A queued job goes to another region, where nothing of its execution has been committed either.

    The fence grows, so that nobody can claim it from what he has read in the old region. A back-off goes on; a price is asked for anew.
    """
    assert head.state is State.QUEUED
    backs_off = head.wait is not None and head.wait.kind is WaitKind.RETRY
    return step(
        head,
        moment,
        EventType.MOVED,
        by=by,
        message=message,
        region=region,
        fence=head.fence + 1,
        wait=head.wait if backs_off else spot_wait(head, moment),
        apply_failures=0,
        ring_at=first_ring(moment.now),
        rings=0,
    )


def found_again(head: Head, region: str, execution: int, message: str, moment: Moment) -> Change:
    """The table was restored to a time before an execution, of which an object stands in a region: the head's is that one from now on.

    The job is queued for one change, so that it can be claimed and committed as any other is.
    """
    told: dict[str, Any] = {"execution": execution, "region": region, "fence": head.fence + 1, "stop": None}
    if head.state.on_cluster and execution > head.execution:
        return next_execution(head, moment, EventType.READY, "restored", message, wait=None, **told)
    return step(
        head,
        moment,
        EventType.READY,
        state=State.QUEUED,
        reason="restored",
        message=message,
        claim=None,
        wait=None,
        ring_at=first_ring(moment.now),
        rings=0,
        **told,
    )


def claimed_again(head: Head, claim: Claim, moment: Moment) -> Change:
    """A queued job is claimed as a whole head, by somebody who has read it and competes with nobody."""
    assert head.state is State.QUEUED
    return silent(head, moment, state=State.CLAIMED, fence=head.fence + 1, claim=claim)


def still_waiting(head: Head, until: datetime, message: str, moment: Moment, **updates: Any) -> Change:
    """The wait goes on. No event: nothing happened to the job; but its head says why it waits."""
    assert head.wait is not None
    return silent(head, moment, wait=head.wait.model_copy(update={"until": until}), message=message, **updates)


def rung(head: Head, moment: Moment) -> Change:
    """The doorbell was rung once more; the next time is twice as far away, an hour at most."""
    rings = head.rings + 1
    pause = STOP_RETRY if head.stop is not None else timedelta(seconds=min(60 * 2 ** min(rings, 10), 3600))
    return silent(head, moment, rings=rings, ring_at=moment.now + pause)


def spot_wait(head: Head, moment: Moment) -> Wait | None:
    """The wait of a job that runs on spot only: it is due at once, so that the sweeper looks at the price."""
    return Wait(kind=WaitKind.SPOT, until=moment.now) if head.spot is not None else None
