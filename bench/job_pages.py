"""What a page of 50 of a cluster's 10,000 Jobs costs through the API: requests to Kubernetes, counted on the wire, and memory.

The Jobs stand suspended on a simulated cluster, in one namespace. The API is a process as in production; its memory is what its resident
set (RSS) grows by while pages are made, over what it was after a page by name, which reads 50 Jobs only. Megabytes are decimal.
"""

from __future__ import annotations

import time
from typing import Any

import httpx
import psutil

from bench.figures import Figure, Options
from bench.memory import sampled
from bench.stage import NAMESPACE, REGION, Stage, answers, child, fleet, free_ports, stage
from bench.wire import Wire, kubernetes_operation, wire
from bench.workload import at_a_time, manifest
from shared.clusters.client import connect
from shared.clusters.kinds import JOB

JOBS = 10_000
QUICK = 1_000
LIMIT = 50
CONCURRENCY = 32
TEAMS = 10

_BY_NAME = "by name"
_PAGES: dict[str, dict[str, Any]] = {
    _BY_NAME: {"sort": "name:asc"},
    "newest first": {},
    "of a label": {"label_selector": "team in (team-1, team-2)"},
    "of a status": {"status": "pending"},
    "by status, from the middle": {"sort": "status:desc", "offset": 500},
}


async def run(options: Options) -> list[Figure]:
    """The figures of pages of Jobs."""
    count = QUICK if options.quick else JOBS
    (port,) = free_ports(1)
    async with stage() as place, wire(place.cluster, kubernetes_operation) as kubernetes, fleet(place) as found:
        await _fill(place, count)
        tapped = {"GPUFLEET_KUBECONFIG": str(place.kubeconfig(await kubernetes.tap("api"))), "GPUFLEET_API_PORT": str(port)}
        url = f"http://127.0.0.1:{port}"
        async with child("api", "workers.api", scratch=place.scratch, env=found.environment(place.endpoint, **tapped)) as process:
            await answers(f"{url}/healthz")
            async with httpx.AsyncClient(base_url=url, timeout=120) as client:
                costs = {_BY_NAME: await _cost(client, kubernetes, _BY_NAME, count)}
                before = psutil.Process(process.pid).memory_info().rss
                async with sampled(process.pid) as most:
                    costs |= {name: await _cost(client, kubernetes, name, count) for name in _PAGES if name != _BY_NAME}
                grown = (most[0] - before) / 1_000_000
    return [
        Figure(
            name="Kubernetes requests of a page of Jobs",
            value=max(cost["requests"] for cost in costs.values()),
            bound=2,
            unit="requests",
            note=f"the dearest of {len(costs)} kinds of page of {LIMIT} of {count:,} Jobs",
            details={"jobs": count, "pages": costs},
        ),
        Figure(
            name="memory of a page of Jobs",
            value=round(grown, 1),
            bound=30,
            unit="MB",
            note=f"what the API grows by while it reads {count:,} Jobs for each page",
            details={"before": round(before / 1_000_000, 1)},
        ),
    ]


async def _fill(place: Stage, count: int) -> None:
    """Make so many Jobs, suspended, so that the cluster has nothing to do."""
    async with connect(kubeconfig=place.kubeconfig(place.cluster), context=REGION) as api:

        async def make(number: int) -> None:
            body = manifest()
            body["metadata"] |= {"name": f"job-{number:05d}", "labels": {"team": f"team-{number % TEAMS}"}}
            body["spec"]["suspend"] = True
            await api.request("POST", JOB.path(NAMESPACE), body=body)

        await at_a_time(CONCURRENCY, count, make)


async def _cost(client: httpx.AsyncClient, kubernetes: Wire, name: str, count: int) -> dict[str, Any]:
    """What one page costs. Raises RuntimeError for a page that isn't as it should be, whose cost would say nothing."""
    kubernetes.counts.reset()
    began = time.perf_counter()
    answer = await client.get("/api/v1/jobs", params={"limit": LIMIT, **_PAGES[name]})
    seconds = time.perf_counter() - began
    answer.raise_for_status()
    page = answer.json()
    total = count * 2 // TEAMS if "label_selector" in _PAGES[name] else count
    if (page["total"], page["count"]) != (total, LIMIT):
        raise RuntimeError(f"a page {name} has {page['count']} of {page['total']} Jobs, not {LIMIT} of {total}")
    counts = kubernetes.counts
    return {
        "requests": counts.of("kubernetes"),
        "megabytes": round(counts.received["kubernetes"] / 1_000_000, 2),
        "seconds": round(seconds, 2),
    }
