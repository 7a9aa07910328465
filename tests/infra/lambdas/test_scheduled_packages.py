"""The packages that schedules call."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest

from infra.functions import FUNCTIONS, ScheduleSource, named
from shared.clock import SystemClock
from shared.jobs.model import Timeouts
from shared.jobs.states import State
from shared.metrics.snapshots import Snapshots
from shared.store.objects import S3Objects
from tests.infra.lambdas.eks_stage import eks_stage
from tests.infra.lambdas.events import batch
from tests.infra.lambdas.runtime import FailedError
from tests.infra.lambdas.usage import ledger
from tests.integration.metrics.stage import gpu_cluster
from tests.integration.region import REGION, running_region
from tests.integration.webhooks.fleet import running_fleet

pytestmark = pytest.mark.infra

AWAY = "eu-west-1"


def payload(name, region=None):
    """What the function's schedule calls it with."""
    (source,) = (source for source in named(name).sources if isinstance(source, ScheduleSource))
    return dict(source.payloads((region,) if region else ())[0]) if source.each_region else dict(source.payload)


async def test_a_job_that_overstays_its_time_in_the_queue_is_ended_within_the_invocation(deployed, fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path) as region:
        head = await region.submit(timeouts=Timeouts(queue_seconds=1))
        sweeper = await deployed("sweeper", settings=region.settings, seconds=14, GPUFLEET_LEASE_SECONDS="1")

        told = await sweeper(payload("sweeper"))

        assert (await region.head(head.id)).state is State.FAILED
        assert told[REGION]["error"] is None
        assert (await sweeper(payload("sweeper")))[REGION]["sweeps"] == 1


async def test_a_job_that_waits_for_a_spot_price_has_ec2_asked(deployed, fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path) as region:
        head = await region.submit(spot_instance_type="g5.12xlarge", max_spot_price=Decimal("0.01"))
        sweeper = await deployed("sweeper", settings=region.settings, seconds=11)

        await sweeper(payload("sweeper"))

        assert (await region.head(head.id)).spot.checked_at is not None


async def test_a_delivery_whose_time_has_come_is_sent_again(deployed, fleet_resources):
    async with running_fleet(fleet_resources) as fleet:
        receiver = await fleet.receiver()
        webhook = await fleet.subscribe(receiver, events=("job.completed",))
        head = await fleet.ran()
        parts = await fleet.parts()
        await parts.handler._fanout.tell(head.id, {5}, parts.handler._fanout.concerned())
        await parts.courier.give_back(grace_seconds=0)
        sweep = await deployed("webhooks-sweep", seconds=16, GPUFLEET_WEBHOOK_LOCAL="true")

        async with asyncio.timeout(60):
            while not (await fleet.delivery(webhook, head, 5)).state.final:
                await sweep(payload("webhooks-sweep"))

        assert {one.headers["webhook-id"] for one in receiver.received} == {f"{head.id}#5"}


async def test_the_reports_that_are_due_are_made(deployed, fleet_resources):
    first = await ledger(fleet_resources, hours=3)
    costs = await deployed("costs", settings=fleet_resources.settings.model_copy(update={"regions": (REGION,)}))

    assert await costs(payload("costs")) == {"batchItemFailures": []}
    listed = await fleet_resources.aws.s3.list_objects_v2(Bucket=fleet_resources.settings.bucket, Prefix="reports/")
    assert listed["KeyCount"] == 3
    assert first < SystemClock().now() - timedelta(hours=3)


async def test_the_gpus_of_a_region_are_read_through_eks(deployed, fleet_resources, aws_endpoint, tmp_path):
    settings = fleet_resources.settings.model_copy(update={"regions": (REGION, AWAY)})
    async with (
        gpu_cluster(tmp_path) as gpus,
        eks_stage(upstream=gpus.server.url, sts=aws_endpoint, name="gpu-us", region=REGION) as stage,
    ):
        await gpus.ready()
        metrics = await deployed(
            "metrics", settings=settings, GPUFLEET_EKS_CLUSTERS="gpu-us-{region},us-east-1=gpu-us", AWS_ENDPOINT_URL_EKS=stage.eks
        )

        assert await metrics(payload("metrics", REGION)) == {"scraped": [REGION], "failed": 0}
        with pytest.raises(FailedError, match="there is no EKS cluster gpu-us-eu-west-1"):
            await metrics(payload("metrics", AWAY))
        with pytest.raises(FailedError, match="/task"):
            await metrics({"source": "aws.events"})
        event = batch("scrapes", {"task": "scrape", "region": REGION}, {"task": "dance"}, identifiers=["good", "wrong"])
        assert await metrics(event) == {"batchItemFailures": [{"itemIdentifier": "wrong"}]}

    (found,) = await Snapshots(S3Objects(fleet_resources.aws.s3, settings.bucket)).latest([REGION])
    assert len(found.gpus) == 16
    assert stage.refused == []


async def test_the_fleets_health_is_told_as_metrics_in_the_log(deployed, fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path) as region:
        await region.submit()
        health = await deployed("health", settings=region.settings)

        told = await health(payload("health"))

        assert told["told"] > 0
        metrics = [line for line in health.lines() if "_aws" in line]
        assert len(metrics) == told["told"]
        assert any(line.get("region") == REGION and line.get("fleet_ready_jobs") == 1 for line in metrics)
        # No observer has told of the cluster, and nobody has read its GPUs.
        assert [line["fleet_health_unread"] for line in metrics if "fleet_health_unread" in line] == [2 * len(region.settings.regions)]
        assert await health(payload("health")) == {"told": 0}


def test_every_function_is_run_by_a_test():
    covered = {"api", "api-costs", "ingest", "webhooks-relay", "webhooks", "webhooks-sweep", "sweeper", "costs", "metrics", "health"}

    assert {function.name for function in FUNCTIONS} == covered
