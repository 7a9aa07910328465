"""Jobs while dispatchers are killed: sends them, kills one dispatcher every second, and counts what came of it.

What started is counted from the clusters' own history, and what was accepted from the answers to the requests; the fleet is asked only for
the states at the end.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.e2e.jobs import a_job
from workers.local import history
from workers.local.fleet import EmbeddedFleet
from workers.local.options import Options

SETTINGS = {"GPUFLEET_LEASE_SECONDS": "3", "GPUFLEET_SWEEP_SECONDS": "1", "GPUFLEET_DISPATCH_SLOTS": "8"}
REGIONS = ("us-east-1", "eu-west-1")
NODES = "4xm7i.48xlarge"
TERMINAL = ("succeeded", "failed", "cancelled")


@dataclass(kw_only=True)
class Outcome:
    """What came of a run."""

    accepted: set[str] = field(default_factory=set)
    states: Counter[str] = field(default_factory=Counter)
    known: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def lost(self) -> set[str]:
        """Accepted jobs of which the fleet knows nothing, or that no cluster ran."""
        return (self.accepted - self.known) | (self.accepted - self.started)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in self.states.items())
        kills = f"{self.killed.total()} kills of {len(self.killed)} dispatchers"
        wrong = f"started twice {len(self.twice)}, lost {len(self.lost)}"
        return f"{len(self.accepted)} accepted: {counts}; {wrong}; {kills}; {self.seconds:.0f} s"


async def run(*, jobs: int, dispatchers_per_region: int, every: float, within: float, kills: int | None = None) -> Outcome:
    """Send jobs to a fleet of its own and kill a dispatcher every so many seconds, until all have ended or `within` seconds have passed.

    `kills` bounds how many are killed: a busy machine may need longer for a start than it has between two kills.
    """
    options = Options(regions=REGIONS, nodes=NODES, dispatchers=dispatchers_per_region, settings=SETTINGS)
    outcome = Outcome()
    async with EmbeddedFleet(options) as fleet, httpx.AsyncClient(base_url=fleet.api_url, timeout=60, trust_env=False) as client:
        begun = time.monotonic()
        killing = asyncio.create_task(_kill(fleet, every, kills, outcome))
        try:
            async with asyncio.timeout(within), asyncio.TaskGroup() as group:
                group.create_task(_send(client, jobs, outcome))
                group.create_task(_until_ended(client, jobs))
        except TimeoutError:
            pass  # the counts will tell
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        outcome.seconds = time.monotonic() - begun
        await _count(fleet, client, outcome)
    return outcome


async def _send(client: httpx.AsyncClient, jobs: int, outcome: Outcome) -> None:
    room = asyncio.Semaphore(8)

    async def send(number: int) -> None:
        request = {"manifest": a_job(f"kill-{number}"), "target_region": REGIONS[number % len(REGIONS)]}
        async with room:
            response = await client.post("/api/v1/queue/jobs", json=request, headers={"Idempotency-Key": f"kill-{number}"})
        response.raise_for_status()
        outcome.accepted.add(response.json()["job"]["job_id"])

    async with asyncio.TaskGroup() as group:
        for number in range(jobs):
            group.create_task(send(number))


async def _until_ended(client: httpx.AsyncClient, jobs: int) -> None:
    while True:
        by_region = (await client.get("/api/v1/queue/stats")).raise_for_status().json()["by_region"]
        if sum(states[state] for states in by_region.values() for state in TERMINAL) >= jobs:
            return
        await asyncio.sleep(0.5)


async def _kill(fleet: EmbeddedFleet, every: float, kills: int | None, outcome: Outcome) -> None:
    """Each time the one that has worked longest; one that is just being started again is not worth a kill."""
    while kills is None or outcome.killed.total() < kills:
        await asyncio.sleep(every)
        ready = [child for name, child in fleet.processes.items() if name.startswith("dispatcher-") and child.ready]
        if ready:
            victim = min(ready, key=lambda child: child.ready_at or 0).name
            fleet.kill(victim)
            outcome.killed[victim] += 1


async def _count(fleet: EmbeddedFleet, client: httpx.AsyncClient, outcome: Outcome) -> None:
    records: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        params = {"limit": "500", **({"cursor": cursor} if cursor else {})}
        page = (await client.get("/api/v1/queue/jobs", params=params)).raise_for_status().json()
        records += page["jobs"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    outcome.states.update(record["status"] for record in records)
    outcome.known.update(record["job_id"] for record in records)
    ran = history.executions(await history.read(fleet.layout.cluster_ports.values()))
    outcome.started.update(one.job_id for one in ran)
    outcome.twice += history.started_twice(ran, {})
    outcome.twice += [f"job {job_id}: {count} executions" for job_id, count in history.count_by_job(ran).items() if count > 1]
