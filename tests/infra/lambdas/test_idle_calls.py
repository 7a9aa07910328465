"""What the scheduled functions ask of AWS in a call that finds nothing to do: what an idle fleet costs is reckoned with this."""

from __future__ import annotations

import pytest

from bench.wire import aws_operation, wire
from infra.functions import FUNCTIONS, ScheduleSource, named
from tests.infra.lambdas.eks_stage import eks_stage
from tests.integration.metrics.stage import gpu_cluster
from tests.integration.region import REGION

pytestmark = pytest.mark.infra

CLOUDWATCH = "GraniteServiceVersion20100801"
"""As the wire has it."""
IDLE = {
    # One due shard of the region, and one of deliveries.
    "sweeper": {("dynamodb", "Query"): 1},
    "webhooks-sweep": {("dynamodb", "Query"): 1},
    # No observer has told of anything yet, so that nothing can be due.
    "costs": {("s3", "GET bucket"): 9},
    # A region without GPUs: its snapshot, and the three metrics that say so.
    "metrics": {("s3", "PUT object"): 1, (CLOUDWATCH, "PutMetricData"): 1},
    # Read anew every five minutes, and then told.
    "health": {},
}
"""Requests of the second call of a container, by service and operation, of a fleet of one region."""


SCHEDULED = [function.name for function in FUNCTIONS if any(isinstance(one, ScheduleSource) for one in function.sources)]


@pytest.mark.parametrize("name", SCHEDULED)
async def test_an_idle_call_asks_no_more_than_what_its_costs_are_reckoned_with(deployed, fleet_resources, aws_endpoint, tmp_path, name):
    settings = fleet_resources.settings.model_copy(update={"regions": (REGION,)})
    async with (
        wire(aws_endpoint, aws_operation) as aws,
        gpu_cluster(tmp_path, nodes="1xm5.large") as cluster,
        eks_stage(upstream=cluster.server.url, sts=aws_endpoint, name="gpu", region=REGION) as stage,
    ):
        places = {"AWS_ENDPOINT_URL": await aws.tap(name), "AWS_ENDPOINT_URL_EKS": stage.eks, "AWS_ENDPOINT_URL_STS": aws_endpoint}
        function = await deployed(name, settings=settings, seconds=12, GPUFLEET_EKS_CLUSTERS="us-east-1=gpu", **places)
        (schedule,) = (one for one in named(name).sources if isinstance(one, ScheduleSource))
        (payload,) = map(dict, schedule.payloads((REGION,)))

        await function(payload)
        before = aws.counts.requests.copy()
        await function(payload)

        made = {(service, operation): count for (_, service, operation), count in (aws.counts.requests - before).items()}
        assert made == IDLE[name]
