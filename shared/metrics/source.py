"""Where queries are answered: a Prometheus that is named in the settings, else CloudWatch, where the metrics worker writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shared.clock import Clock
from shared.errors import NotHereError, UnavailableError
from shared.metrics.cloudwatch_queries import cloudwatch_queries
from shared.metrics.prometheus_queries import prometheus_queries
from shared.metrics.queries import MetricQueries
from shared.metrics.rollups import rollups_of
from shared.settings import Settings


class MetricSource:
    """Gives `MetricQueries`; `cloudwatch` is an aiobotocore client of the control region."""

    def __init__(self, settings: Settings, cloudwatch: Any, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        rollups = rollups_of(settings.metrics_rollups)
        self._cloudwatch = cloudwatch_queries(cloudwatch, regions=settings.regions, rollups=rollups, clock=clock) if rollups else None

    @asynccontextmanager
    async def queries(self) -> AsyncIterator[MetricQueries]:
        """Whoever answers, for as long as the block lasts. Raises NotHereError where nobody does, UnavailableError."""
        if self._settings.prometheus_url is not None:
            async with prometheus_queries(self._settings.prometheus_url, token=self._token(), clock=self._clock) as found:
                yield found
        elif self._cloudwatch is not None:
            yield self._cloudwatch
        else:
            raise NotHereError("no metrics are kept: GPUFLEET_METRICS_ROLLUPS is empty, and GPUFLEET_PROMETHEUS_URL names no Prometheus")

    def _token(self) -> str | None:
        """Read anew each time, since such files are replaced while a process lives."""
        path = self._settings.prometheus_token_file
        if path is None:
            return None
        try:
            return path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UnavailableError(f"GPUFLEET_PROMETHEUS_TOKEN_FILE can't be read: {error}") from error
