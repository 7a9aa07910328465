"""Writing data to CloudWatch: PutMetricData in batches as full as AWS takes them, gzip'd by the client.

Throttles and server errors are tried again by botocore. A batch that fails for good is told of and takes no other with it: what is
missing is a minute of some metrics, and the next scrape writes the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from botocore.exceptions import BotoCoreError, ClientError

from shared.metrics.series import DEVICES_NAMESPACE

MOST_DATA: Final = 1000
MOST_BYTES: Final = 900_000
"""Of one request, https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html: 1,000 data in 1 MB, of which
a tenth is left for what is around them."""
_TOGETHER: Final = 4
_DATUM_BYTES: Final = 190
"""Of one datum in CBOR: names of fields, numbers and time."""
_DIMENSION_BYTES: Final = 16

log = structlog.get_logger()

Datum = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What became of some data. `error` is that of the last batch that failed."""

    requests: int
    data: int
    lost: int = 0
    error: str | None = None


class MetricWriter:
    """Writes to one namespace behind an aiobotocore CloudWatch client."""

    def __init__(self, client: Any, *, namespace: str = DEVICES_NAMESPACE) -> None:
        self._client = client
        self._namespace = namespace
        self._room = asyncio.Semaphore(_TOGETHER)

    async def write(self, data: Sequence[Datum]) -> Written:
        """Write data. Never raises for what AWS answers."""
        parts = list(batches(data))
        errors = await asyncio.gather(*(self._put(part) for part in parts))
        lost = sum(len(part) for part, error in zip(parts, errors, strict=True) if error is not None)
        last = next((error for error in reversed(errors) if error is not None), None)
        if last is not None:
            log.warning("metrics not written", data=lost, of=len(data), error=last)
        return Written(requests=len(parts), data=len(data), lost=lost, error=last)

    async def _put(self, data: Sequence[Datum]) -> str | None:
        async with self._room:
            try:
                await self._client.put_metric_data(Namespace=self._namespace, MetricData=data)
            except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
                return str(error) or type(error).__name__
        return None


def batches(data: Sequence[Datum]) -> Iterator[Sequence[Datum]]:
    """The data in order, in as few requests as they fit in."""
    first = size = 0
    for index, datum in enumerate(data):
        own = _bytes(datum)
        if index - first == MOST_DATA or (index > first and size + own > MOST_BYTES):
            yield data[first:index]
            first, size = index, 0
        size += own
    if first < len(data):
        yield data[first:]


def _bytes(datum: Datum) -> int:
    dimensions = sum(_DIMENSION_BYTES + len(one["Name"]) + len(one["Value"].encode()) for one in datum["Dimensions"])
    return _DATUM_BYTES + len(datum["MetricName"]) + dimensions
