"""What a server of the API counts of its requests, for `/metrics`. Not used on Lambda, where every container would count for itself.

No caller, path or id is a label: routes and methods are as many as the API has, and whatever is none of them is `other`.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector

OTHER: Final = "other"
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. Answers that are followed take as long as they are followed."""


class Figures:
    """The counters of a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        collectors: tuple[type[Collector], ...] = (ProcessCollector, PlatformCollector, GCCollector)
        for collector in collectors:
            collector(registry=self.registry)  # type: ignore[call-arg]  # each of these takes a registry
        self._requests = Histogram(
            "api_request_seconds",
            "requests, from their first byte to the last of their answer",
            labelnames=("method", "route", "status"),
            buckets=BUCKETS,
            registry=self.registry,
        )

    def note(self, *, method: str, route: str | None, status: int, seconds: float) -> None:
        """A request has been answered."""
        known = (method, route) if route is not None else (OTHER, OTHER)
        self._requests.labels(*known, str(status)).observe(seconds)
