"""The states of a job and every legal transition. Nothing else decides what may follow what."""

from __future__ import annotations

from enum import StrEnum

from shared.errors import FleetError


class State(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"  # waits for a worker, or for a time or a price
    CLAIMED = "claimed"  # a worker has the right to apply it, for the time of its lease
    PENDING = "pending"  # its object is committed on a cluster, no pod runs yet
    RUNNING = "running"  # a pod of it runs
    SUCCEEDED = "succeeded"  # the cluster said Complete
    FAILED = "failed"  # no further attempt is due; `reason` says why
    CANCELLED = "cancelled"  # stopped on request, and the cluster confirmed it

    @property
    def terminal(self) -> bool:
        """Whether nothing follows this state."""
        return not LEGAL[self]

    @property
    def on_cluster(self) -> bool:
        """Whether the job has a committed object on a cluster."""
        return self in (State.PENDING, State.RUNNING)


LEGAL: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.CLAIMED, State.FAILED, State.CANCELLED}),
    State.CLAIMED: frozenset({State.PENDING, State.QUEUED, State.FAILED, State.CANCELLED}),
    State.PENDING: frozenset({State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.QUEUED}),
    State.RUNNING: frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.QUEUED}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}


class IllegalTransitionError(FleetError):
    """A change was built that the table of transitions does not allow: a fault of the program, never of its input."""


def check(before: State, after: State) -> None:
    """Raise IllegalTransitionError unless `after` may follow `before`. Staying in a state is always legal."""
    if after is not before and after not in LEGAL[before]:
        raise IllegalTransitionError(f"{before} -> {after}")
