"""Where a job stands in the two orders that workers read: the ready list of its region, and what is due.

Both are derived from the head alone, so that an index can never say something else than the state does.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.clock import from_sortable, sortable
from shared.jobs.model import Head, earliest
from shared.jobs.states import State

FAIRNESS_TAG = "0"
"""Second part of the ready order; constant until namespaces of equal priority are interleaved."""


def in_ready_list(head: Head) -> bool:
    """Whether a worker may claim the job now."""
    return head.state is State.QUEUED and head.wait is None


def ready_order(head: Head) -> str:
    """Priority (100 first), fairness tag, time of submission, id: texts that sort as the jobs are to be claimed."""
    return f"{100 - head.priority:03d}#{FAIRNESS_TAG}#{sortable(head.submitted_at)}#{head.id}"


def submitted_in(order: str) -> datetime:
    """The time of submission in a place of the ready order."""
    return from_sortable(order.split("#")[2])


def total_deadline(head: Head) -> datetime | None:
    """When the job must have ended."""
    return _after(head.submitted_at, head.timeouts.total_seconds)


def queue_deadline(head: Head) -> datetime | None:
    """When the job must have been committed for the first time; later executions are past it."""
    return _after(head.submitted_at, head.timeouts.queue_seconds) if head.execution == 1 else None


def execution_deadline(head: Head) -> datetime | None:
    """When the running execution must have ended."""
    return _after(head.started_at, head.timeouts.execution_seconds) if head.started_at else None


def due_at(head: Head) -> datetime | None:
    """When somebody must look at the job, whatever happens: None for a job that has ended or runs without a limit."""
    if head.state.terminal:
        return None
    if head.state is State.CLAIMED:
        lapses = head.claim.expires_at if head.claim else head.updated_at
        return max(lapses, head.ring_at) if head.stop is not None and head.ring_at is not None else lapses
    if head.stop is not None:
        return head.ring_at
    if head.state is State.QUEUED:
        look = head.wait.until if head.wait else head.ring_at
        return earliest(look, queue_deadline(head), total_deadline(head))
    return earliest(execution_deadline(head), total_deadline(head))


def first_ring(now: datetime) -> datetime:
    """When the sweeper looks at a job whose doorbell may have been lost: a minute after it was ready."""
    return now + timedelta(seconds=60)


def _after(start: datetime, seconds: int | None) -> datetime | None:
    return start + timedelta(seconds=seconds) if seconds is not None else None
