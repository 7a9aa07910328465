"""The real code with one rule taken out, to show that the simulation notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shared.clusters.bundles import Bundles
from shared.jobs.change import Change
from shared.jobs.model import Head, Specification
from shared.jobs.ports import Bundle
from shared.jobs.states import State
from shared.store.jobs import Jobs

_CONDITION = ("ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues")


def _commit_without_fence() -> None:
    """A commit is written whoever holds the job by now.

    The numbers of its events are a second guard, since an event that stands is never written again; so they are taken out as well.
    """
    original = Jobs._actions

    def actions(self: Jobs, change: Change, tries: int) -> list[dict[str, Any]]:
        found = original(self, change, tries)
        if change.before is not None and change.before.state is State.CLAIMED and change.after.state is State.PENDING:
            for action in found:
                for name in _CONDITION:
                    action.get("Put", {}).pop(name, None)
        return found

    Jobs._actions = actions  # type: ignore[method-assign] # the sabotage


def _create_unsuspended() -> None:
    """The object may run as soon as it has been created."""
    original = Bundles.bundle

    def bundle(self: Bundles, head: Head, specification: Specification) -> Bundle:
        made = original(self, head, specification)
        job = {**made.job, "spec": {**made.job["spec"], "suspend": False}}
        return Bundle(job=job, supporting=made.supporting)

    Bundles.bundle = bundle  # type: ignore[method-assign] # the sabotage


SABOTAGES: Mapping[str, Callable[[], None]] = {
    "commit-without-fence": _commit_without_fence,
    "create-unsuspended": _create_unsuspended,
}


def apply(name: str | None) -> None:
    """Take a rule out, for the rest of this process."""
    if name is not None:
        SABOTAGES[name]()


@contextmanager
def applied(name: str | None) -> Iterator[None]:
    """Take a rule out for a while."""
    saved = Jobs._actions, Bundles.bundle
    try:
        apply(name)
        yield
    finally:
        Jobs._actions, Bundles.bundle = saved  # type: ignore[method-assign] # the sabotage
