"""One scrape of a region's cluster: who is there, what every exporter says, and both put together.

An exporter that hangs, floods, or talks nonsense is counted and costs only its own GPUs. What the API server itself doesn't answer
fails the scrape: without the list of nodes and pods nobody can say whose a device is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.clock import Clock
from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.errors import ApiError
from shared.clusters.kinds import NODE, POD
from shared.clusters.listing import whole_list
from shared.errors import UnavailableError
from shared.metrics.devices import Reading
from shared.metrics.exporters import Exporter, find_exporters
from shared.metrics.fetching import SECONDS, Fetch, ScrapeError
from shared.metrics.joining import Pods, joined
from shared.metrics.reading import read_exporter
from shared.metrics.snapshot import ExporterState, Gpu, Snapshot

CONCURRENCY: Final = 32
DEADLINE_SECONDS: Final = 45.0
"""Of all exporters together: those that have not been read by then have failed."""
_THREAD_CHARACTERS: Final = 256 * 1024
"""A text of this size takes some 10 ms to read, for which the event loop waits otherwise."""
_FLEET: Final = {"labelSelector": f"{names.MANAGED}=true", "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_PRESENT: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


@dataclass(frozen=True, slots=True)
class _Answer:
    exporter: Exporter
    state: ExporterState
    readings: Sequence[Reading] = ()


class Scraper:
    """Reads the GPUs of one region's cluster. Pods of `untrusted` namespaces are no exporters, whatever their labels say."""

    def __init__(
        self,
        api: KubernetesApi,
        fetch: Fetch,
        *,
        region: str,
        selectors: Sequence[str],
        project_labels: Sequence[str],
        clock: Clock,
        untrusted: Collection[str] = (),
        concurrency: int = CONCURRENCY,
        seconds: float = SECONDS,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._api = api
        self._fetch = fetch
        self._region = region
        self._selectors = selectors
        self._project_labels = project_labels
        self._clock = clock
        self._untrusted = untrusted
        self._concurrency = concurrency
        self._seconds = seconds
        self._deadline_seconds = deadline_seconds

    async def scrape(self) -> Snapshot:
        """What is there now. Raises UnavailableError where the API server can't be asked."""
        at, began = self._clock.now(), time.monotonic()
        try:
            exporters, nodes, pods = await asyncio.gather(
                find_exporters(self._api, self._selectors, untrusted=self._untrusted),
                self._list(NODE.path(), {}),
                self._list(POD.path(), _FLEET),
            )
            known = {node["metadata"]["name"] for node in nodes}
            answers = await self._ask([one for one in exporters if one.node in known], until=began + self._deadline_seconds)
            present = Pods(pods, project_labels=self._project_labels)
            await self._add_strangers(present, answers)
        except ApiError as error:
            raise UnavailableError(f"the cluster of {self._region} can't be asked for its GPUs: {error}") from error
        return Snapshot(
            region=self._region,
            at=at,
            seconds=round(time.monotonic() - began, 3),
            gpus=_once(answers, present),
            exporters=tuple(answer.state for answer in answers),
        )

    async def _list(self, path: str, query: dict[str, str]) -> list[dict[str, Any]]:
        return [found async for found in whole_list(self._api, path, query)]

    async def _add_strangers(self, pods: Pods, answers: Sequence[_Answer]) -> None:
        """Pods that hold GPUs and aren't the fleet's: of their namespaces all are listed, of no other namespace."""
        namespaces = sorted(pods.unknown(reading for answer in answers for reading in answer.readings))
        for listed in await asyncio.gather(*(self._list(POD.path(namespace), _PRESENT) for namespace in namespaces)):
            for pod in listed:
                pods.add(pod)

    async def _ask(self, exporters: Sequence[Exporter], *, until: float) -> list[_Answer]:
        room = asyncio.Semaphore(self._concurrency)

        async def ask(exporter: Exporter) -> _Answer:
            async with room:
                return await self._read(exporter, seconds=min(self._seconds, until - time.monotonic()))

        return list(await asyncio.gather(*(ask(exporter) for exporter in exporters)))

    async def _read(self, exporter: Exporter, *, seconds: float) -> _Answer:
        began = time.monotonic()
        readings: Sequence[Reading] = ()
        broken, error = 0, exporter.waiting
        if error is None and seconds <= 0:
            error = f"no time was left: all exporters together have {self._deadline_seconds:.0f} s"
        if error is None:
            try:
                text = await self._fetch(exporter, seconds=seconds)
                aside = len(text) > _THREAD_CHARACTERS
                scraped = await asyncio.to_thread(read_exporter, text) if aside else read_exporter(text)
                readings, broken = scraped.readings, scraped.broken
                if not readings:
                    error = "the answer has no GPU in it"
            except ScrapeError as failure:
                error = str(failure)
        state = ExporterState(
            namespace=exporter.namespace,
            pod=exporter.pod,
            node=exporter.node,
            seconds=round(time.monotonic() - began, 3),
            gpus=len(readings),
            broken=broken,
            error=error,
        )
        return _Answer(exporter, state, readings)


def _once(answers: Sequence[_Answer], pods: Pods) -> tuple[Gpu, ...]:
    """Every device once, though two exporters of a node tell of it, in the order of nodes and devices."""
    found: dict[tuple[str, str, str, str | None], Gpu] = {}
    for answer in answers:
        for gpu in joined(answer.readings, node=answer.exporter.node, pods=pods):
            device = gpu.device
            found.setdefault((device.node, device.vendor, device.index, device.partition), gpu)
    return tuple(sorted(found.values(), key=_order))


def _order(gpu: Gpu) -> tuple[str, str, int, str]:
    index = gpu.device.index
    return (gpu.device.node, gpu.device.vendor, int(index) if index.isascii() and index.isdigit() else 0, gpu.label)
