"""The worker from the cluster to everybody who reads: CloudWatch of the emulator, the snapshot in its S3, `/metrics`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from shared.aws import connect
from shared.errors import ConflictError, InvalidError, UnavailableError
from shared.metrics.serving import GpuCollector
from shared.metrics.snapshots import Snapshots
from shared.metrics.vocabulary import Measure
from shared.settings import Settings
from shared.store.objects import S3Objects
from tests.integration.metrics.stage import JOB_ID, REGION
from workers.local.cluster import Fault
from workers.metrics.build import build
from workers.metrics.handler import Parts, answer
from workers.metrics.loop import MetricsLoop
from workers.metrics.scrapes import Scrapes
from workers.metrics.server import serving

AWAY = "eu-west-1"
"""A region that the kubeconfig doesn't have."""


@dataclass
class Built:
    settings: Settings
    scrapes: Scrapes
    collector: GpuCollector
    snapshots: Snapshots
    cloudwatch: Any

    async def statistics(self, name: str, at, **dimensions: str) -> dict[str, float]:
        answer = await self.cloudwatch.get_metric_statistics(
            Namespace="gpufleet/devices",
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
            StartTime=at - timedelta(minutes=1),
            EndTime=at + timedelta(minutes=1),
            Period=60,
            Statistics=["Sum", "SampleCount", "Minimum", "Maximum"],
        )
        return max(answer["Datapoints"], key=lambda point: point["Timestamp"])


@pytest.fixture
async def built(gpus, fleet_resources) -> AsyncIterator[Built]:
    settings = fleet_resources.settings.model_copy(update={"kubeconfig": gpus.kubeconfig, "regions": (REGION, AWAY)})
    async with AsyncExitStack() as stack:
        aws = await stack.enter_async_context(connect("us-east-1", "s3", "cloudwatch"))
        scrapes, collector = build(settings, aws, stack)
        yield Built(settings, scrapes, collector, Snapshots(S3Objects(aws.s3, settings.bucket)), aws.cloudwatch)


async def test_everybody_who_reads_gets_the_same(gpus, built):
    job_id = f"{JOB_ID[:-12]}{built.settings.bucket[-12:]}"  # CloudWatch is one for all tests
    await gpus.run_ours("train", 3, job_id=job_id)
    await gpus.until(lambda one: sum(gpu.user is not None and gpu.values[Measure.UTILIZATION] > 0 for gpu in one.gpus) == 3)

    found = await built.scrapes.scrape(REGION)

    assert await built.snapshots.latest([REGION, AWAY]) == [found]
    held = [gpu.values[Measure.POWER] for gpu in found.gpus if gpu.user]
    written = await built.statistics("gpu_power", found.at, region=REGION, namespace="gco-jobs", job_id=job_id)
    assert (written["SampleCount"], written["Minimum"], written["Maximum"]) == (3, min(held), max(held))
    assert written["Sum"] == pytest.approx(sum(held))
    assert (await built.statistics("gpu_devices", found.at, region=REGION))["Maximum"] == 16
    registry = CollectorRegistry()
    registry.register(built.collector)
    with serving(registry, host="127.0.0.1", port=0) as port:
        async with httpx.AsyncClient(trust_env=False) as client:
            text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    powers = [one for family in text_string_to_metric_families(text) for one in family.samples if one.name == "gpu_power"]
    assert len(powers) == 16
    assert sorted(one.value for one in powers if one.labels.get("job_id") == job_id) == sorted(held)


async def test_who_can_not_take_a_scrape_misses_it_and_the_others_do_not(gpus, built):
    await gpus.ready()
    await built.scrapes.scrape(REGION)
    bucketless = Snapshots(S3Objects(built.snapshots._objects._client, "no-such-bucket-anywhere"))
    built.scrapes._snapshots = bucketless

    found = await built.scrapes.scrape(REGION)

    assert (await built.statistics("gpu_exporters", found.at, region=REGION))["SampleCount"] >= 1
    assert await bucketless.latest([REGION]) == []


async def test_a_region_whose_cluster_is_away_holds_up_no_other(gpus, built):
    await gpus.ready()
    seen: list[str] = []

    async def scrape(region: str) -> None:
        seen.append(region)
        await built.scrapes.scrape(region)

    stop = asyncio.Event()
    loop = MetricsLoop(scrape=scrape, regions=built.settings.regions, seconds=0.2, grace_seconds=5)
    running = asyncio.create_task(loop.run(stop))
    async with asyncio.timeout(20):
        while seen.count(AWAY) < 3 or seen.count(REGION) < 3:
            await asyncio.sleep(0.02)
    stop.set()
    await running

    assert [one.region for one in await built.snapshots.latest(built.settings.regions)] == [REGION]


async def test_a_loop_that_is_asked_to_end_finishes_what_it_has_begun():
    begun, go_on, ended = asyncio.Event(), asyncio.Event(), []

    async def scrape(region: str) -> None:
        begun.set()
        await go_on.wait()
        ended.append(region)

    stop = asyncio.Event()
    running = asyncio.create_task(MetricsLoop(scrape=scrape, regions=["r"], seconds=60, grace_seconds=5).run(stop))
    await begun.wait()
    stop.set()
    go_on.set()
    await running

    assert ended == ["r"]


def records(*bodies: Any) -> dict[str, Any]:
    texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies]
    return {"Records": [{"messageId": f"m{number}", "body": text} for number, text in enumerate(texts)]}


def failed(found: Any) -> list[str]:
    return [one["itemIdentifier"] for one in found["batchItemFailures"]]


async def test_a_batch_of_tasks_fails_in_part(gpus, built):
    await gpus.ready()
    parts = Parts(scrapes=built.scrapes, regions=built.settings.regions)
    event = records(
        {"task": "scrape", "region": REGION},
        {"task": "scrape", "region": AWAY},
        {"task": "scrape"},
        {"task": "costs"},
        {"task": "scrape", "region": "mars"},
        "not JSON",
        "[]",
        {"task": "scrape", "region": REGION},
    )

    assert sorted(failed(await answer(parts, event))) == ["m1", "m2", "m3", "m4", "m5", "m6"]
    assert failed(await answer(parts, records({"task": "scrape", "region": REGION}))) == []


async def test_what_was_asked_for_several_times_is_done_once():
    done: list[str] = []

    class Counting:
        async def scrape(self, region: str) -> None:
            done.append(region)

    parts = Parts(scrapes=Counting(), regions=("a", "b"))

    assert failed(await answer(parts, records(*[{"task": "scrape", "region": "a"}] * 5, {"task": "scrape"}))) == []
    assert done == ["a", "b"]


async def test_an_event_of_a_schedule_names_what_was_scraped_or_fails(gpus, built):
    await gpus.ready()
    parts = Parts(scrapes=built.scrapes, regions=built.settings.regions)

    assert await answer(parts, {"task": "scrape", "region": REGION}) == {"scraped": [REGION], "failed": 0}
    assert await answer(parts, {"task": "scrape"}) == {"scraped": [REGION], "failed": 1}
    with pytest.raises(UnavailableError):
        await answer(parts, {"task": "scrape", "region": AWAY})
    with pytest.raises(InvalidError, match="/task"):
        await answer(parts, {"source": "aws.events"})


async def test_a_lambda_container_scrapes_again_and_again(gpus, built):
    await gpus.ready()
    program = (
        f"from workers.metrics.handler import handler\nfor _ in range(2): print(handler({{'task': 'scrape', 'region': '{REGION}'}}, None))"
    )
    settings = built.settings
    variables = {
        "GPUFLEET_KUBECONFIG": str(settings.kubeconfig),
        "GPUFLEET_REGIONS": ",".join(settings.regions),
        "GPUFLEET_BUCKET": settings.bucket,
        "GPUFLEET_LOG_LEVEL": "ERROR",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), env=os.environ | variables, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    out, _ = await process.communicate()

    assert process.returncode == 0
    assert out.decode().splitlines() == [f"{{'scraped': ['{REGION}'], 'failed': 0}}"] * 2
    (found,) = await built.snapshots.latest([REGION])
    assert len(found.gpus) == 16


async def test_a_cluster_that_comes_back_is_scraped_again(gpus, built):
    await gpus.ready()
    gpus.server.faults.add(Fault(path="/api/v1/nodes", status=503))

    with pytest.raises(UnavailableError):
        await built.scrapes.scrape(REGION)

    assert len((await built.scrapes.scrape(REGION)).gpus) == 16


def test_a_port_that_is_taken_is_told():
    with (
        serving(CollectorRegistry(), host="127.0.0.1", port=0) as port,
        pytest.raises(ConflictError, match="GPUFLEET_METRICS_PORT"),
        serving(CollectorRegistry(), host="127.0.0.1", port=port),
    ):
        pass
