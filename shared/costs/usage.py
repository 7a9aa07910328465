"""What was there in a window, as the observers of a region have told it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.costs.model import NodeUsage, PodUsage, Window


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The nodes and pods of a window, one telling of each. An `end` of None: it was still there at the window's end.

    `complete_to` is the time up to which there was an observer without a gap, the window's end where there was all the time. `gaps` are
    the times without one; what came and went in one isn't known. `final`: an observer has told of the time after the window, so that
    another reading would tell no more. `all_pods`: those that aren't the fleet's are there too.
    """

    window: Window
    nodes: Sequence[NodeUsage]
    pods: Sequence[PodUsage]
    complete_to: datetime
    gaps: Sequence[Window]
    final: bool
    all_pods: bool


class UsageSource(Protocol):
    """Knows what was there."""

    async def usage(self, region: str, window: Window) -> Usage:
        """All that the observers of a region told of a window. Raises UnavailableError."""
        ...
