"""The newest snapshot of each region, where whoever asks can read it: one compressed object a region in the fleet's bucket.

In the table it would be the largest item and the most expensive: 50 KB a minute are two million write units a month and region, against
44,000 requests to S3. It is overwritten by each scrape and so needs no expiry; its reader judges by its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shared.errors import UnavailableError
from shared.metrics.snapshot import Snapshot, decode, encode
from shared.store.objects import S3Objects


class Snapshots:
    """The repository of snapshots."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects

    async def put(self, snapshot: Snapshot) -> None:
        """Replace the snapshot of a region. Raises UnavailableError."""
        data = await asyncio.to_thread(encode, snapshot)
        await self._objects.put(_key(snapshot.region), data, content_type="application/gzip")

    async def latest(self, regions: Sequence[str]) -> list[Snapshot]:
        """The snapshots of these regions, in their order; one that was never read is left out. Raises UnavailableError."""
        found = await asyncio.gather(*(self._objects.get(_key(region)) for region in regions))
        return [await asyncio.to_thread(_decoded, region, data) for region, data in zip(regions, found, strict=True) if data is not None]


def _decoded(region: str, data: bytes) -> Snapshot:
    try:
        return decode(data)
    except ValueError as error:
        raise UnavailableError(f"the snapshot of the GPUs of {region} can't be read: {error}") from error


def _key(region: str) -> str:
    return f"metrics/region={region}/latest.json.gz"
