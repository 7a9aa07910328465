"""The observer's loop: follows the Jobs, pods and nodes of a region's cluster and hands on what they mean."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import structlog

from shared.clusters.nodes import NodeView
from shared.clusters.pods import PodIndex, PodView
from shared.clusters.watch import Changed, Deleted, Item, Listed
from shared.errors import FleetError
from shared.jobs.observation import Fact, Observation
from shared.jobs.ports import Observed
from workers.loops import Passes
from workers.observer.facts import FactQueue
from workers.observer.usage import UsageAccount
from workers.process import until_stopped

log = structlog.get_logger()

RESYNC_SECONDS = 600.0
"""How often the jobs that should have an object on the cluster are held against those that do. An object that was deleted between its
creation and its commit is heard of too early, and never again."""
REPORT_SECONDS = 10.0

Report = Callable[[list[NodeView], list[PodView]], Awaitable[None]]


class ObserverLoop:
    """Runs one region's observer until it is stopped. A second one may run beside it."""

    def __init__(
        self,
        *,
        observation: Observation,
        jobs: AsyncIterable[Item[Observed]],
        pods: AsyncIterable[Item[PodView]],
        nodes: AsyncIterable[Item[NodeView]],
        index: PodIndex,
        report: Report,
        grace_seconds: float,
        usage: UsageAccount | None = None,
        resync_seconds: float = RESYNC_SECONDS,
        report_seconds: float = REPORT_SECONDS,
    ) -> None:
        self._observation = observation
        self._jobs = jobs
        self._pods = pods
        self._nodes = nodes
        self._index = index
        self._report = report
        self._grace_seconds = grace_seconds
        self._usage = usage
        self._resync_seconds = resync_seconds
        self._report_seconds = report_seconds
        self.passes = Passes()
        self._known: dict[str, Observed] = {}
        self._machines: dict[str, NodeView] = {}
        self._changed = asyncio.Event()
        self._listed = asyncio.Event()
        self._facts = FactQueue(self._handle, self._again)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        loops = [
            asyncio.create_task(loop)
            for loop in (
                self._follow_jobs(),
                self._follow_pods(),
                self._follow_nodes(),
                self._resync_forever(),
                self._report_forever(),
                *([self._usage.run()] if self._usage is not None else []),
            )
        ]
        try:
            await until_stopped(stop, *loops)
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            closing = [self._facts.close(grace_seconds=self._grace_seconds), *([self._usage.close()] if self._usage is not None else [])]
            await asyncio.gather(*closing)

    async def _follow_jobs(self) -> None:
        async for item in self._jobs:
            if self._usage is not None:
                self._usage.job(item)
            match item:
                case Listed():
                    self._relist(item.objects)
                case Changed():
                    self._known[item.object.uid] = item.object
                    self._tell(item.object)
                case Deleted():
                    self._known.pop(item.object.uid, None)
                    self._facts.put(Fact(seen=self._with_pods(item.object), gone=True))
                    self._index.ended(item.object.uid)

    def _relist(self, objects: list[Observed]) -> None:
        """What was known and isn't listed is gone; whether it had been released by then, nobody can say."""
        present = {seen.uid: seen for seen in objects}
        for uid, last in self._known.items():
            if uid not in present:
                self._facts.put(Fact(seen=replace(last, released="unknown"), gone=True))
        self._known = present
        self._index.retain(present)
        for seen in objects:
            self._tell(seen)
        self._listed.set()

    async def _follow_pods(self) -> None:
        async for item in self._pods:
            if self._usage is not None:
                self._usage.pod(item)
            match item:
                case Listed():
                    self._index.replace(item.objects)
                    for uid in {pod.job_uid for pod in item.objects if pod.disrupted or pod.unschedulable}:
                        self._again(uid)
                case Changed():
                    self._index.put(item.object)
                    if item.object.disrupted or item.object.unschedulable:
                        self._again(item.object.job_uid)
                case Deleted():
                    self._index.remove(item.object)
            self._changed.set()

    async def _follow_nodes(self) -> None:
        async for item in self._nodes:
            if self._usage is not None:
                self._usage.node(item)
            match item:
                case Listed():
                    self._machines = {node.name: node for node in item.objects}
                case Changed():
                    self._machines[item.object.name] = item.object
                case Deleted():
                    self._machines.pop(item.object.name, None)
            self._changed.set()

    def _tell(self, seen: Observed) -> None:
        self._facts.put(Fact(seen=self._with_pods(seen), gone=False))

    def _again(self, uid: str) -> None:
        seen = self._known.get(uid)
        if seen is not None:
            self._tell(seen)

    def _with_pods(self, seen: Observed) -> Observed:
        return replace(
            seen,
            disrupted=self._index.disruption(seen.uid),
            unschedulable=self._index.unschedulable(seen.uid),
            ready=max(seen.ready, self._index.running(seen.uid)),
        )

    async def _handle(self, fact: Fact) -> timedelta | None:
        pause = await self._observation.handle(fact)
        if fact.gone or fact.seen.complete or fact.seen.failed_reason is not None:
            self._index.ended(fact.seen.uid)
        return pause

    async def _resync_forever(self) -> None:
        """At once after each list, and then again and again."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._resync_seconds):
                    await self._listed.wait()
            self._listed.clear()
            self.passes.begin()
            try:
                for fact in await self._observation.settle(list(self._known.values())):
                    self._facts.put(fact)
                self.passes.succeed()
            except FleetError as error:
                log.warning("resync failed", error=str(error))
                self.passes.fail(error)
                self._listed.set()
                await asyncio.sleep(5.0)

    async def _report_forever(self) -> None:
        """Tell the placement of jobs what is free: when that has changed, and now and then, so that it is known to be fresh."""
        told: tuple[list[NodeView], int] | None = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._resync_seconds):
                    await self._changed.wait()
            renew = not self._changed.is_set()
            self._changed.clear()
            nodes, pods = list(self._machines.values()), list(self._index.all())
            now = (nodes, sum(pod.gpus for pod in pods if pod.holds_gpus))
            if renew or now != told:
                try:
                    await self._report(nodes, pods)
                    told = now
                except FleetError as error:
                    log.warning("report not written", error=str(error))
                    self._changed.set()
            await asyncio.sleep(self._report_seconds)
