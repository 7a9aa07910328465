"""How many jobs a dispatcher puts on a cluster in a second, as a share of what its calls alone allow (see `floor`).

The processor time of this process for a job stands in the details: what the emulator takes hides it here, and would not in production.

Both find the same number of ready jobs and have the same number of slots; both run in this process, against the same emulator and the
same simulated cluster, one after the other in several rounds whose order changes. Time runs from the start until the last
job is released. The figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from bench.figures import Figure, Options
from bench.filling import fill, heads
from bench.floor import Floor
from bench.noticing import Noticing
from bench.stage import REGION, Fleet, fleet, stage
from shared.clusters import client
from shared.clusters.api import KubernetesApi
from workers.dispatcher.build import build

JOBS = 300
ROUNDS = 7


async def run(options: Options) -> list[Figure]:
    """The figure of throughput."""
    jobs, rounds = (150, 3) if options.quick else (JOBS, ROUNDS)
    async with (
        stage() as place,
        fleet(place) as found,
        client.connect(kubeconfig=place.kubeconfig(place.cluster), context=REGION, pool_size=found.settings.dispatch_slots) as api,
    ):
        seen = Noticing.on(api)
        runners: dict[str, Callable[[], Awaitable[float]]] = {
            "fleet": lambda: _by_dispatcher(found, api, seen, jobs),
            "floor": lambda: _by_floor(found, api, jobs),
        }
        for warm in runners.values():
            await fill(found, heads(jobs), duration=0.0)
            await warm()
        speeds: list[dict[str, float]] = []
        busy: dict[str, list[float]] = {name: [] for name in runners}
        for number in range(rounds):
            speed = {}
            for name in sorted(runners, reverse=bool(number % 2)):
                await fill(found, heads(jobs), duration=0.0)
                began = time.process_time()
                speed[name] = jobs / await runners[name]()
                busy[name].append((time.process_time() - began) / jobs * 1000)
            speeds.append(speed)
    return [_figure(speeds, busy, jobs)]


def _figure(speeds: list[dict[str, float]], busy: dict[str, list[float]], jobs: int) -> Figure:
    ratios = [speed["fleet"] / speed["floor"] for speed in speeds]
    rounded = [{name: round(value, 1) for name, value in speed.items()} for speed in speeds]
    return Figure(
        name="dispatcher throughput",
        value=statistics.median(ratios),
        bound=0.7,
        unit="of the floor's",
        at_least=True,
        note=f"median of {len(speeds)} rounds of {jobs} jobs each; both in this process against the same emulator and cluster",
        details={
            "ratios": [round(ratio, 3) for ratio in ratios],
            "jobs_per_second": rounded,
            "processor_milliseconds_per_job": {name: round(statistics.median(values), 2) for name, values in busy.items()},
        },
    )


async def _by_dispatcher(found: Fleet, api: KubernetesApi, seen: Noticing, jobs: int) -> float:
    loop = await build(found.core, found.clients.sqs, api, region=REGION, owner="bench")
    stop = asyncio.Event()
    released = seen.after("PATCH", jobs)
    began = time.perf_counter()
    running = asyncio.create_task(loop.run(stop))
    async with asyncio.timeout(300):
        await released
    took = time.perf_counter() - began
    stop.set()
    await running
    return took


async def _by_floor(found: Fleet, api: KubernetesApi, jobs: int) -> float:
    floor = Floor(found, api)
    began = time.perf_counter()
    async with asyncio.timeout(300):
        await floor.dispatch(jobs, found.settings.dispatch_slots)
    return time.perf_counter() - began
