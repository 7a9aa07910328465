"""What a job has cost so far. It travels with the events that tell that an execution runs or has ended, and costs no write of its own.

Who writes such an event may know what the execution has cost: the observer, which sees nodes and pods (`ports.Meter`). A worker that
doesn't know says so, and what is missing once stays missing. The reports of costs know it in any case, a while later.
"""

from __future__ import annotations

from typing import Final

from shared.jobs.model import Head, Spent

NOTHING: Final = Spent()
MAX_MISSING: Final = 200
"""Characters that say what isn't known; a head is to stay below 4 KB."""


def unknown(why: str) -> Spent:
    """A cost of which nothing is known."""
    return Spent(missing=why[:MAX_MISSING])


def spent_before(head: Head) -> Spent:
    """What the executions before the head's have cost. A worker of an earlier release writes heads without it."""
    if head.spent is not None:
        return head.spent
    return NOTHING if head.execution == 1 else unknown("what earlier executions have cost was not kept")


def so_far(head: Head) -> Spent:
    """What a job has cost: all of it once it has ended; until then what the executions have that ended, with a word about the one that
    hasn't."""
    if head.state.terminal or head.object is None:
        return spent_before(head)
    return spent_before(head) + unknown(f"execution {head.execution} has not ended")


def cost_of_ended(head: Head) -> Spent:
    """What the head's execution has cost, as far as one knows who doesn't watch the cluster: before its commit it has no pods."""
    return NOTHING if head.object is None else unknown(f"what execution {head.execution} used was not known when it ended")
