"""What a scrape of a thousand GPUs costs: CPU of the worker, and requests to CloudWatch.

125 nodes of eight GPUs, each with an exporter of some twenty series a GPU and a job that holds all eight. The cluster and AWS's emulator
are processes of their own, so what this process uses is what the worker would: lists of nodes and pods, 125 answers through the API
server's proxy, reading, joining, rolling up, and writing to CloudWatch and S3. CPU seconds are of all threads; the median of some scrapes.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from typing import Any

from bench.figures import Figure, Options
from bench.stage import NAMESPACE, REGION, Fleet, Stage, aws_environment, environment, fleet, stage
from shared.aws import connect
from shared.clusters import client, names
from shared.clusters.api import KubernetesApi
from shared.metrics.snapshot import Snapshot
from shared.metrics.vocabulary import Measure
from workers.metrics.build import build

NODES = 125
GPUS = 8
SERIES = 20
CPU_BOUND = 0.5
BY_DEVICE = ("region", "region+node+device")


async def run(options: Options) -> list[Figure]:
    """CPU of a scrape and of one whose devices are all written; requests of both."""
    rounds = 3 if options.quick else 9
    async with (
        stage(nodes=f"{NODES}xp5.48xlarge", exporters=True) as place,
        fleet(place) as found,
        client.connect(kubeconfig=place.kubeconfig(place.cluster), context=REGION) as api,
    ):
        for number in range(NODES):
            await api.request("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", body=_job(number))
        usual, requests, snapshot = await _measured(place, found, rounds)
        devices, all_requests, _ = await _measured(place, found, rounds, metrics_rollups=BY_DEVICE)
        series = await _series(api, snapshot)
    details = {"rounds": rounds, "series_of_a_gpu": series, "gpus": len(snapshot.gpus), "devices_cpu_seconds": devices}
    note = f"{len(snapshot.gpus)} GPUs x {series:.0f} series, {len(snapshot.exporters)} exporters; median of {rounds}"
    return [
        Figure(name="scrape, CPU", value=usual, bound=CPU_BOUND, unit="s", note=note, details=details),
        Figure(name="scrape, PutMetricData", value=requests, bound=4, unit="requests", note="the rollups that are written by default"),
        Figure(name="scrape by device, PutMetricData", value=all_requests, bound=14, unit="requests", note="every measure of every GPU"),
    ]


async def _measured(place: Stage, found: Fleet, rounds: int, **settings: Any) -> tuple[float, float, Snapshot]:
    """CPU seconds of a scrape, PutMetricData requests of it, and the last snapshot."""
    made = found.settings.model_copy(update={"kubeconfig": place.kubeconfig(place.cluster), **settings})
    with environment(aws_environment(place.endpoint)):
        async with AsyncExitStack() as stack:
            aws = await stack.enter_async_context(connect(REGION, "s3", "cloudwatch"))
            counted = _Counting(aws.cloudwatch)
            scrapes, _ = build(made, type(aws)(s3=aws.s3, cloudwatch=counted), stack)
            async with asyncio.timeout(60):
                while not _full(snapshot := await scrapes.scrape(REGION)):
                    await asyncio.sleep(0.2)
            taken = []
            for _ in range(rounds):
                counted.requests = 0
                before = time.process_time()
                snapshot = await scrapes.scrape(REGION)
                taken.append(time.process_time() - before)
            if not _full(snapshot):
                raise RuntimeError(f"{snapshot.failures} of {len(snapshot.exporters)} exporters failed")
            return statistics.median(taken), counted.requests, snapshot


def _full(snapshot: Snapshot) -> bool:
    busy = sum(gpu.user is not None and gpu.user.job_id is not None and gpu.values[Measure.UTILIZATION] > 0 for gpu in snapshot.gpus)
    return not snapshot.failures and busy == NODES * GPUS


class _Counting:
    """A CloudWatch client that counts what is billed."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.requests = 0

    async def put_metric_data(self, **request: Any) -> Any:
        self.requests += 1
        return await self._client.put_metric_data(**request)


async def _series(api: KubernetesApi, snapshot: Snapshot) -> float:
    one = snapshot.exporters[0]
    async with api.stream(f"/api/v1/namespaces/{one.namespace}/pods/{one.pod}:9400/proxy/metrics", query={}) as chunks:
        text = b"".join([chunk async for chunk in chunks]).decode()
    series = sum(not line.startswith("#") for line in text.splitlines()) / GPUS
    if series < SERIES:
        raise RuntimeError(f"an exporter has {series} series a GPU, and should have {SERIES}")
    return series


def _job(number: int) -> dict[str, Any]:
    """What the fleet would have made of a job of eight GPUs."""
    job_id = f"01a22dbf-a78c-7432-8323-{number:012x}"
    labels = {names.MANAGED: "true", names.JOB_ID: job_id, names.EXECUTION: "1", "project": f"p{number % 10}"}
    container = {"name": "main", "image": "busybox:1", "resources": {"limits": {"nvidia.com/gpu": str(GPUS)}}}
    pod = {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}], "containers": [container]}
    template = {"metadata": {"labels": labels, "annotations": {"simulation.gpufleet.io/hang": "true"}}, "spec": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"j{number}"}, "spec": {"template": template}}
