"""Moves a cluster's time along the running event loop, real or virtual: it calls `advance` when something is due, and not otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from workers.local.cluster.cluster import SimulatedCluster


class Driver:
    """Drives one cluster from the running loop until `stop`.

    `clock` must be the one that the cluster has, and must run with the loop's time; a loop under virtual time needs nothing else.
    """

    def __init__(self, cluster: SimulatedCluster, *, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._armed = float("inf")
        cluster.on_earlier_wakeup(self._arm)
        self._arm()

    def _arm(self) -> None:
        due = self._cluster.next_wakeup()
        if due is None or due >= self._armed:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._armed = due
        self._handle = self._loop.call_later(max(0.0, due - self._clock()), self._advance)

    def _advance(self) -> None:
        self._handle, self._armed = None, float("inf")
        self._cluster.advance()
        self._arm()

    def stop(self) -> None:
        """Let the cluster stand still."""
        self._cluster.on_earlier_wakeup(lambda: None)
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
