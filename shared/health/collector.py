"""The fleet's figures as a collector of prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from shared.health.figures import Figure
from shared.health.telling import families


class HealthCollector(Collector):
    """Gives what was put last. It may be asked from any thread."""

    def __init__(self) -> None:
        self._figures: Sequence[Figure] = ()

    def put(self, figures: Iterable[Figure]) -> None:
        """The newest figures."""
        self._figures = tuple(figures)

    def describe(self) -> list[Metric]:
        """Nothing: what is registered need not be collected for it first."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All gauges."""
        yield from families(self._figures)
