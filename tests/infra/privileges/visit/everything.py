"""The visit: every step of it, each for the calls that nothing else leads to."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.infra.fleet import ROOT
from tests.infra.privileges.visit import applied, jobs, measures, queues, webhooks
from tests.infra.privileges.visit.visitor import Visitor, until

NODES = "2xg5.12xlarge,1xg5.12xlarge:spot,1xg4ad.16xlarge,9xm5.4xlarge"


async def everything(visitor: Visitor) -> None:
    """All of it: side by side what is in nobody's way, and the rest one after the other."""
    await webhooks.webhooks_are_made(visitor)
    await measures.usage_of_an_hour_ago(visitor)
    async with asyncio.TaskGroup() as group:
        for step in (
            jobs.jobs,
            queues.queue,
            queues.dead_letters,
            applied.keys_and_templates,
            applied.manifests,
            measures.reading,
            measures.clusters,
            webhooks.an_endpoint_mends,
        ):
            group.create_task(step(visitor))
    for step in (
        applied.wide,
        jobs.what_is_refused,
        jobs.what_is_in_the_way,
        jobs.what_nobody_told,
        measures.costs,
        webhooks.webhooks_are_administered,
        regions,
        tour,
    ):
        await step(visitor)


async def regions(visitor: Visitor) -> None:
    """A region is drained, a job that waits there moved, and resumed."""
    moved = await visitor.submit("moved", spot_instance_type="g5.12xlarge", max_spot_price=0.01)
    first = (await visitor.ask("GET", f"/fleet/v1/jobs/{moved}"))["region"]
    (second,) = (region for region in visitor.fleet.options.regions if region != first)
    await visitor.ask("POST", f"/fleet/v1/regions/{first}/drain", json={"reason": "a visit"})
    await until(lambda: _is(visitor, moved, "region", second), "the job is moved")
    await visitor.ask("GET", "/fleet/v1/regions")
    await visitor.ask("POST", f"/fleet/v1/regions/{first}/resume", json={})
    await visitor.ask("DELETE", f"/api/v1/queue/jobs/{moved}")


async def _is(visitor: Visitor, job_id: str, field: str, value: Any) -> bool:
    return bool((await visitor.ask("GET", f"/fleet/v1/jobs/{job_id}"))[field] == value)


async def tour(visitor: Visitor) -> None:
    """Every operation of GCO's door, by its own script."""
    environment = os.environ | visitor.fleet.aws_env | {"GPUFLEET_API": str(visitor.client.base_url)}
    process = await asyncio.create_subprocess_exec(
        ROOT / "docs" / "api-tour.sh", env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()
