"""The metrics worker's part: the fleet's health in `/metrics` and CloudWatch, and as lines on Lambda."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from shared.aws import connect
from shared.clock import SystemClock
from shared.errors import UnavailableError
from shared.health.reading import KeptHealth
from shared.health.sources import health_reader
from shared.metrics.series import FLEET_NAMESPACE
from workers.metrics import health as module


@pytest.fixture
async def aws(aws_environment):
    async with connect("us-east-1", "dynamodb", "sqs", "s3", "secretsmanager", "cloudwatch") as clients:
        yield clients


async def samples(aws):
    """How often CloudWatch was told of the heartbeat in these minutes; the emulator is one for several tests."""
    told = await aws.cloudwatch.get_metric_statistics(
        Namespace=FLEET_NAMESPACE,
        MetricName="fleet_health_unread",
        StartTime=SystemClock().now() - timedelta(minutes=10),
        EndTime=SystemClock().now() + timedelta(minutes=1),
        Period=60,
        Statistics=["SampleCount"],
    )
    return sum(point["SampleCount"] for point in told["Datapoints"])


async def test_prometheus_and_cloudwatch_are_told(fleet_resources):
    settings = fleet_resources.settings.model_copy(update={"regions": ("us-east-1",)})
    loop = module.build(settings, fleet_resources.aws, settings.regions)
    registry = CollectorRegistry()
    registry.register(loop.collector)
    before = await samples(fleet_resources.aws)
    stop = asyncio.Event()
    running = asyncio.create_task(loop.run(stop))
    async with asyncio.timeout(20):
        while loop.passes.succeeded_at is None:
            await asyncio.sleep(0.02)
    told = generate_latest(registry).decode()
    assert 'fleet_ready_jobs{region="us-east-1"} 0.0' in told
    assert "fleet_health_unread 2.0" in told  # nobody has told of the cluster or read its GPUs, which is this worker's to do
    assert await samples(fleet_resources.aws) == before + 1
    stop.set()
    await asyncio.wait_for(running, 5)


async def test_nothing_is_written_where_nobody_wants_metrics_in_cloudwatch(fleet_resources):
    settings = fleet_resources.settings.model_copy(update={"metrics_rollups": ()})
    assert module.build(settings, fleet_resources.aws, settings.regions)._writer is None


async def test_a_table_that_is_away_is_told_and_tried_again(fleet_resources, monkeypatch):
    settings = fleet_resources.settings

    async def away(*_, **__):
        raise UnavailableError("DynamoDB: away")

    loop = module.HealthLoop(
        reader=health_reader(settings, fleet_resources.aws, SystemClock()),
        collector=module.HealthCollector(),
        writer=None,
        busy_seconds=0.01,
        idle_seconds=0.01,
    )
    registry = CollectorRegistry()
    registry.register(loop.collector)
    stop = asyncio.Event()
    with monkeypatch.context() as patch:
        patch.setattr("shared.store.backlogs.Backlogs.overview", away)
        running = asyncio.create_task(loop.run(stop))
        async with asyncio.timeout(20):
            while loop.passes.error is None:
                await asyncio.sleep(0.01)
        assert "fleet_health_unread 1.0" in generate_latest(registry).decode()
    async with asyncio.timeout(20):
        while loop.passes.succeeded_at is None:
            await asyncio.sleep(0.01)
    # It is read, and no observer has ever told of its regions.
    assert f"fleet_health_unread {len(settings.regions)}.0" in generate_latest(registry).decode()
    stop.set()
    await asyncio.wait_for(running, 5)


class At:
    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment


async def test_on_lambda_each_snapshot_is_written_once(fleet_resources, capsys):
    clock = At(SystemClock().now())
    teller = module._Teller(KeptHealth(health_reader(fleet_resources.settings, fleet_resources.aws, clock), clock))
    first = await teller.tell()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first == {"told": len(lines)}
    assert {one["_aws"]["CloudWatchMetrics"][0]["Namespace"] for one in lines} == {FLEET_NAMESPACE}
    assert [one["fleet_health_unread"] for one in lines if "fleet_health_unread" in one] == [len(fleet_resources.settings.regions)]
    clock.moment += timedelta(minutes=4)  # the fleet is idle
    assert await teller.tell() == {"told": 0}
    clock.moment += timedelta(minutes=1)
    assert await teller.tell() == first
