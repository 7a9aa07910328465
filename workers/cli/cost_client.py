"""The API's costs as the command sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from workers.cli.client import FleetClient, Json
from workers.cli.failures import CommandError, ExitCode

_COSTS = "/fleet/v1/costs"
_LONGEST_KEY = 1024


class CostClient(FleetClient):
    """Asks about costs. Raises CommandError."""

    options_only = True

    def costs(self, **choice: Any) -> Json:
        """Totals of a time."""
        return self._get(_COSTS, choice, totals=list, total_cost=str, reports=int)

    def cost_report(self, key: str, **choice: Any) -> Json:
        """Totals of one report, by its key or as `latest`."""
        steps = key.split("/")
        if len(key) > _LONGEST_KEY or not key.isprintable() or any(step in {"", ".", ".."} for step in steps):
            raise CommandError(f"Cost report '{key[:60]}' not found: this can't be a key", code=ExitCode.NOT_FOUND)
        return self._get(f"{_COSTS}/reports/{quote(key, safe='/=')}", choice, totals=list, total_cost=str, reports=int)

    def cost_reports(self, **filters: Any) -> Json:
        """The newest reports."""
        return self._get(f"{_COSTS}/reports", filters, reports=list)

    def write_cost_report(self, wanted: Mapping[str, Any]) -> Json:
        """Write a report; its summary."""
        return self._object(self._send("POST", f"{_COSTS}/reports", json=dict(wanted)), allocation_key=str, total_cost=str)
