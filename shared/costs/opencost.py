"""OpenCost's API, read within bounds of time and size. https://opencost.io/docs/integrations/api/"""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import httpx

from shared.clock import Clock
from shared.costs.model import Window
from shared.costs.opencost_model import OpenCostAllocation, OpenCostReading
from shared.costs.windows import last_hours
from shared.errors import UnavailableError

SECONDS: Final = 30.0
PROBE_SECONDS: Final = 5.0
MAX_BYTES: Final = 16 * 1024 * 1024
_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"


class OpenCost:
    """OpenCost of one region's cluster, at the address of its API."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url.rstrip("/")
        self._clock = clock

    async def read(self, window: Window) -> OpenCostReading:
        """What it says of each namespace in a window. That it doesn't answer is a reading too, for a report waits for nobody."""
        try:
            return OpenCostReading(allocations=await self.allocations(window))
        except UnavailableError as error:
            return OpenCostReading(error=str(error)[:500])

    async def allocations(self, window: Window, *, seconds: float = SECONDS) -> list[OpenCostAllocation]:
        """The same. Raises UnavailableError."""
        between = ",".join(moment.strftime(_FORM) for moment in (window.start, window.end))
        asked = {"window": between, "aggregate": "namespace", "accumulate": "true"}
        body = await self._get("/allocation/compute", asked, seconds)
        try:
            document = json.loads(body, parse_float=Decimal, parse_int=Decimal)
            sets = document["data"] or []
            found = [_allocation(name, one) for those in sets for name, one in (those or {}).items()]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UnavailableError("OpenCost answered with something else than allocations") from error
        return sorted(found, key=lambda one: (-one.total_cost, one.namespace))

    async def healthy(self) -> bool:
        """Whether it says that it is well."""
        try:
            await self._get("/healthz", {}, PROBE_SECONDS)
        except UnavailableError:
            return False
        return True

    async def probe(self) -> list[str] | None:
        """The namespaces of the last hour; None where it doesn't say."""
        try:
            found = await self.allocations(last_hours(1, now=self._clock.now()), seconds=PROBE_SECONDS)
        except UnavailableError:
            return None
        return [one.namespace for one in found]

    async def _get(self, path: str, query: dict[str, str], seconds: float) -> bytes:
        found = bytearray()
        try:
            async with (
                asyncio.timeout(seconds),
                httpx.AsyncClient(timeout=seconds, trust_env=False) as client,
                client.stream("GET", f"{self._url}{path}", params=query) as response,
            ):
                if not response.is_success:
                    raise UnavailableError(f"OpenCost answered {response.status_code} to {path}")
                async for part in response.aiter_bytes():
                    found += part
                    if len(found) > MAX_BYTES:
                        raise UnavailableError(f"OpenCost's answer to {path} is larger than {MAX_BYTES} bytes")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as error:
            raise UnavailableError(f"OpenCost gave no answer to {path}: {error or type(error).__name__}") from error
        return bytes(found)


def _allocation(name: str, one: dict[str, Any]) -> OpenCostAllocation:
    return OpenCostAllocation(
        namespace=name, total_cost=_number(one.get("totalCost")), total_efficiency=_number(one.get("totalEfficiency"))
    )


def _number(value: Any) -> Decimal:
    """A number to 9 digits; 0 for NaN, infinities and what is none, as in GCO."""
    try:
        found = Decimal(str(value))
        return found.quantize(Decimal("1e-9")) if found.is_finite() else Decimal(0)
    except InvalidOperation:
        return Decimal(0)
