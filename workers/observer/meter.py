"""What executions have cost, for those who write of their ends: from the observer's ledger and the prices that it has at hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog

from shared.costs.ledger import Ledger
from shared.costs.metering import cost_of
from shared.costs.model import NodeUsage, PodUsage
from shared.costs.price_board import PriceBoard
from shared.jobs.model import Head, Spent
from shared.jobs.ports import Observed
from shared.jobs.spending import NOTHING, unknown

log = structlog.get_logger()

SETTLE_SECONDS: Final = 0.5
"""How long the feed of pods may be behind that of Jobs (as in `shared.clusters.logs`)."""
READY_SECONDS: Final = 5.0
"""So long after an observer's start may Jobs that have ended wait until it knows the cluster and its prices. No later end waits for a
price: a machine joins minutes before a Job ends on it."""
_PAUSE: Final = 0.025


class LedgerMeter:
    """`shared.jobs.ports.Meter` over the ledger of the execution's cluster. Nothing here asks anybody anything."""

    def __init__(self, ledger: Ledger, prices: PriceBoard) -> None:
        self._ledger = ledger
        self._prices = prices
        self._begun = time.monotonic()

    async def settle(self, head: Head) -> None:
        """As `Meter`. It returns at once but for what ended a moment ago, and right after the observer's start."""
        await _until(lambda: self._ready(head), seconds=self._begun + READY_SECONDS - time.monotonic())
        await _until(lambda: all(pod.end is not None for pod in self._pods(head)), seconds=SETTLE_SECONDS)

    def cost(self, head: Head, seen: Observed | None, at: datetime, *, ended: bool) -> Spent:
        """As `Meter`. What was never released had no pods. A fault in it costs the figure, never the job."""
        if head.object is None or (seen is not None and not seen.is_released):
            return NOTHING
        try:
            pods = self._pods(head)
            if not self._watched(head, seen, pods):
                return unknown(f"execution {head.execution} was not watched from its beginning")
            return cost_of(pods, self._nodes(pods), self._prices.rates, at, ended=ended)
        except Exception:
            log.exception("cost not reckoned", job=head.id, execution=head.execution)
            return unknown(f"what execution {head.execution} has cost could not be reckoned")

    def _pods(self, head: Head) -> list[PodUsage]:
        return self._ledger.pods.of((head.id, head.execution))

    def _nodes(self, pods: list[PodUsage]) -> list[NodeUsage]:
        return [node for name in {pod.node for pod in pods} for node in self._ledger.nodes.of(name)]

    def _ready(self, head: Head) -> bool:
        return self._ledger.since is not None and all(self._prices.heard(node) for node in self._nodes(self._pods(head)))

    def _watched(self, head: Head, seen: Observed | None, pods: list[PodUsage]) -> bool:
        """Whether all pods that there were are known: this observer was there from the start, or the Job has not ended more than are known.

        Those that have ended stay on the cluster as long as their Job does, but for those of a machine that is gone.
        """
        since = self._ledger.since
        if since is not None and head.committed_at is not None and since <= head.committed_at:
            return True
        counted = seen.pods if seen is not None else None
        return since is not None and counted is not None and counted.succeeded + counted.failed <= len(pods)


async def _until(condition: Callable[[], bool], *, seconds: float) -> None:
    """Wait until something holds, for so long at the most."""
    until = asyncio.get_running_loop().time() + seconds
    while not condition() and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 - three feeds and a source would have to tell
        await asyncio.sleep(_PAUSE)
