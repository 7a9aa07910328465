"""What a fact on the cluster means for a job: pure, from a head and what was observed to a verdict."""

from __future__ import annotations

from enum import StrEnum

from shared.jobs.model import Head
from shared.jobs.ports import Observed
from shared.jobs.states import State
from shared.jobs.transitions import UNSCHEDULABLE


class Verdict(StrEnum):
    """What is to be done about an object of the fleet."""

    NOTHING = "nothing"
    RELEASE = "release"  # committed, but whoever committed it did not come to release it
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # it runs, but loses its machine: stop it, then start anew
    STRAY = "stray"  # not the committed object, and can't become it any more: delete it, by UID
    NOT_STARTED = "not_started"  # committed, gone, and never released
    DELETED = "deleted"  # committed, released, and gone without having ended
    STOPPED = "stopped"  # to be stopped, and gone


def is_committed(head: Head, seen: Observed) -> bool:
    """Whether what was seen is the object that the head's execution committed."""
    return head.object is not None and head.object.uid == seen.uid and head.execution == seen.execution


def is_placeless(head: Head, seen: Observed) -> bool:
    """Whether the committed object's pods find no place, and the job does not say so yet."""
    waits = head.state is State.PENDING and head.stop is None and is_committed(head, seen)
    return waits and seen.unschedulable is not None and head.reason != UNSCHEDULABLE


def judge_present(head: Head, seen: Observed) -> Verdict:
    """An object stands on the cluster."""
    if not is_committed(head, seen):
        return Verdict.STRAY if _never_to_be_committed(head, seen) else Verdict.NOTHING
    if head.state.terminal:
        return Verdict.NOTHING
    if seen.complete:
        return Verdict.SUCCEEDED
    if head.stop is not None:
        return Verdict.NOTHING
    if seen.failed_reason is not None:
        return Verdict.FAILED
    if not seen.is_released:
        return Verdict.NOTHING if seen.deleting else Verdict.RELEASE
    if seen.disrupted is not None:
        return Verdict.INTERRUPTED
    if seen.ready > 0 and head.state is State.PENDING:
        return Verdict.RUNNING
    return Verdict.NOTHING


def judge_gone(head: Head, last: Observed) -> Verdict:
    """An object has gone from the cluster; `last` is the last that was seen of it."""
    if head.state.terminal:
        return Verdict.NOTHING
    if not is_committed(head, last):
        waiting = head.state is State.CLAIMED and head.object is None and head.execution == last.execution
        return Verdict.STOPPED if head.stop is not None and waiting else Verdict.NOTHING
    if last.complete:
        return Verdict.SUCCEEDED
    if head.stop is not None:
        return Verdict.STOPPED
    if last.failed_reason is not None:
        return Verdict.FAILED
    return Verdict.DELETED if last.is_released else Verdict.NOT_STARTED


def _never_to_be_committed(head: Head, seen: Observed) -> bool:
    """The job has ended, its execution is over, or the execution has another object."""
    if head.state.terminal or head.execution > seen.execution:
        return True
    return head.execution == seen.execution and head.object is not None
