"""The API's metrics as the command sees them."""

from __future__ import annotations

from typing import Any

from workers.cli.client import FleetClient, Json

_METRICS = "/fleet/v1/metrics"


class MetricClient(FleetClient):
    """Asks about GPUs. Raises CommandError."""

    def gpus(self, **filters: Any) -> Json:
        """GPUs at the last scrape: `regions`, `gpus`, `count`, `partial`."""
        return self._get(f"{_METRICS}/gpus", filters, regions=list, gpus=list)

    def metrics_plan(self, **choice: Any) -> Json:
        """How many metrics there are in CloudWatch, and what they cost."""
        return self._get(f"{_METRICS}/plan", choice, rollups=list, metrics=int)

    def metrics_instant(self, **asked: Any) -> Json:
        """What was measured in the newest minute: `series`, `unit`."""
        return self._get(f"{_METRICS}/instant", asked, series=list, unit=str)

    def metrics_range(self, **asked: Any) -> Json:
        """What was measured over time: `series`, `unit`."""
        return self._get(f"{_METRICS}/range", asked, series=list, unit=str)
