"""What the demo knows while it runs: asked of the API, in the words of the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from workers.local.demo.parcels import LABEL, Parcel

TERMINAL = frozenset({"succeeded", "failed", "cancelled"})

Record = Mapping[str, Any]


@dataclass(kw_only=True)
class Seen:
    """The jobs and rejections of one look."""

    jobs: list[Record] = field(default_factory=list)
    rejections: list[Record] = field(default_factory=list)

    def of(self, parcel: Parcel) -> list[Record]:
        """The jobs of a parcel: one, if all is well."""
        return [job for job in self.jobs if job["labels"].get(LABEL) == str(parcel.number)]

    def states(self) -> Mapping[tuple[str, str], int]:
        """How many jobs, by region and state."""
        return Counter((job["target_region"], job["status"]) for job in self.jobs)

    def count(self, *states: str) -> int:
        """How many jobs are in one of the states."""
        return sum(job["status"] in states for job in self.jobs)

    def complete(self, parcels: Sequence[Parcel], refused: int) -> bool:
        """Whether nothing more is to come: every job has ended, and every refusal has been told."""
        wanted = sum(parcel.accepted for parcel in parcels)
        ended = self.count(*TERMINAL)
        return ended == len(self.jobs) >= wanted and len(self.rejections) + refused >= len(parcels) - wanted


async def look(client: httpx.AsyncClient) -> Seen:
    """Ask for all jobs and rejections."""
    return Seen(jobs=await _all(client, "/api/v1/queue/jobs", "jobs"), rejections=await _all(client, "/fleet/v1/rejections", "rejections"))


async def _all(client: httpx.AsyncClient, path: str, name: str) -> list[Record]:
    found: list[Record] = []
    cursor: str | None = None
    while True:
        response = await client.get(path, params={"limit": 1000} | ({"cursor": cursor} if cursor else {}))
        response.raise_for_status()
        page = response.json()
        found += page[name]
        cursor = page.get("next_cursor")
        if cursor is None:
            return found
