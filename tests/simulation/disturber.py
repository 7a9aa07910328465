"""What befalls processes, services and clusters without any request of theirs: kills, stops, freezes, outages, lost nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from shared.jobs.model import Head
from tests.simulation.faults import Fault
from tests.simulation.processes import Process
from tests.simulation.workers import DYNAMODB, S3, SQS, Services
from tests.simulation.workload import NAMESPACE
from workers.local.cluster import SimulatedCluster

_OFTEN = (5.0, 30.0, 1000.0)


class Disturber:
    """Does something bad now and then, as often as the seed says, until the time of faults is over."""

    def __init__(self, services: Services, processes: Sequence[Process], heads: Mapping[str, Head]) -> None:
        self._services = services
        self._processes = processes
        self._heads = heads
        self._faults = services.faults
        self._chance = services.faults.chance

    async def disturb(self) -> None:
        """Go on until all is calm."""
        deeds: list[Callable[[], None]] = [
            self._kill,
            self._stop,
            self._freeze,
            self._set_clock,
            self._compact,
            self._interrupt_node,
            self._begin_outage,
        ]
        if self._services.settings.kueue_queue is not None:
            deeds.append(self._preempt)
        pause = self._chance.choice(_OFTEN)
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / pause))
            if self._faults.calm:
                return
            self._chance.choice(deeds)()

    def _kill(self) -> None:
        process = self._process()
        self._tell(process.name, "kill -9")
        process.life.kill()

    def _stop(self) -> None:
        process = self._process()
        self._tell(process.name, "SIGTERM")
        process.life.stop.set()

    def _freeze(self) -> None:
        process = self._process()
        self._tell(process.name, "SIGSTOP for a while")
        process.life.freeze(self._chance.choice((5.0, 70.0, 150.0)))

    def _set_clock(self) -> None:
        process = self._process()
        process.clock.skew = self._chance.uniform(-30.0, 30.0)
        self._faults.tell(process.name, Fault.CLOCK_JUMP, f"now off by {process.clock.skew:.1f} s")

    def _compact(self) -> None:
        self._tell("cluster", "compaction")
        self._cluster().compact()

    def _interrupt_node(self) -> None:
        cluster = self._cluster()
        if cluster.node_names:
            self._tell("cluster", "node interruption")
            cluster.interrupt_node(self._chance.choice(cluster.node_names))

    def _begin_outage(self) -> None:
        regions = list(self._services.clusters)
        service = self._chance.choice((DYNAMODB, SQS, S3, *regions, *regions))
        who = self._chance.choice((None, self._process().name))
        seconds = self._chance.choice((3.0, 40.0, 90.0)) * self._chance.uniform(0.5, 1.0)
        self._faults.begin_outage(service, who, seconds)
        self._faults.tell(who or "all", Fault.OUTAGE, f"{service} for {seconds:.0f} s")

    def _preempt(self) -> None:
        """Kueue suspends a job for the sake of another."""
        placed = [(head.region, head.object.name) for head in self._heads.values() if head.object is not None and head.state.on_cluster]
        if not placed:
            return
        region, name = self._chance.choice(placed)
        try:
            self._services.clusters[region].preempt_job(NAMESPACE, name)
        except KeyError:
            return
        self._tell("cluster", "preemption by Kueue")

    def _process(self) -> Process:
        return self._chance.choice(self._processes)

    def _cluster(self) -> SimulatedCluster:
        return self._chance.choice(list(self._services.clusters.values()))

    def _tell(self, who: str, what: str) -> None:
        self._services.trace.count(f"fault: {what}")
        self._services.trace.step(who, f"!! {what}")
