"""What is measured and told: GPUs, health, clusters, costs."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from aiobotocore.session import get_session

from shared.clusters.eks import describe
from shared.costs.model import CapacityType, NodeUsage, Window
from shared.costs.usage_documents import UsageDocument, document_key, encode, hour_of
from shared.errors import UnavailableError
from tests.infra.privileges.visit.visitor import Visitor, until


async def reading(visitor: Visitor) -> None:
    """What is measured and told: GPUs, CloudWatch, health, the policy."""
    await until(lambda: _scraped(visitor), "GPUs are scraped")
    for path in ("/fleet/v1/metrics/plan", "/fleet/v1/health", "/metrics", "/api/v1/policy", "/api/v1/status", "/fleet/v1/regions"):
        await visitor.ask("GET", path)
    for by in ("region", "region,namespace", "region,namespace,job_id"):
        await visitor.ask("GET", "/fleet/v1/metrics/range", params={"measure": "gpu_utilization", "by": by})
    await visitor.ask("GET", "/fleet/v1/metrics/instant", params={"measure": "gpu_power", "by": "region"})


async def _scraped(visitor: Visitor) -> bool:
    return bool((await visitor.ask("GET", "/fleet/v1/metrics/gpus"))["gpus"])


async def clusters(visitor: Visitor) -> None:
    """Where the API and the scrapes find clusters of EKS. The emulator has some, that nothing runs in."""
    for worker in ("api", "metrics"):
        credentials = await asyncio.to_thread(visitor.fleet.credentials, worker)
        for region in visitor.fleet.options.regions:
            async with get_session().create_client(
                "eks",
                region_name=region,
                endpoint_url=visitor.fleet.layout.aws_endpoint,
                aws_access_key_id=credentials.key,
                aws_secret_access_key=credentials.secret,
                aws_session_token=credentials.token,
            ) as eks:
                with pytest.raises(UnavailableError, match="no certificates"):
                    await describe(eks, name="gpufleet", region=region)


async def usage_of_an_hour_ago(visitor: Visitor) -> None:
    """What an observer would have told of the hour before this one, so that windows of the schedule are over: of a spot machine too."""
    for region in visitor.fleet.options.regions:
        document = usage_of(region, hour_of(datetime.now(UTC)) - timedelta(hours=1))
        await asyncio.to_thread(visitor.put, document_key(document), encode(document))


async def costs(visitor: Visitor) -> None:
    """The reports of that hour by a message, and what is read of them."""
    await asyncio.to_thread(visitor.send, "gpufleet-tasks", json.dumps({"task": "cost_window"}))
    found = await until(lambda: _reports(visitor), "reports of the schedule are written")
    await visitor.ask("GET", f"/fleet/v1/costs/reports/{found[0]['key']}")
    begin = hour_of(datetime.now(UTC)) - timedelta(hours=1)
    await visitor.ask("GET", "/fleet/v1/costs", params={"from": begin.isoformat(), "by": "job"})
    await visitor.ask("GET", "/api/v1/cost/status")


async def _reports(visitor: Visitor) -> list[dict[str, Any]]:
    return list((await visitor.ask("GET", "/api/v1/cost/reports"))["reports"])


def usage_of(region: str, hour: datetime) -> UsageDocument:
    """Two machines for one hour."""
    nodes = [
        NodeUsage(
            uid=f"visit-{capacity}",
            name=f"visit-{capacity}",
            instance_type="g5.12xlarge",
            capacity_type=capacity,
            zone=f"{region}a",
            cores=Decimal(48),
            memory_bytes=192 * 2**30,
            gpus=4,
            region=region,
            cluster=region,
            start=hour,
            end=None,
        )
        for capacity in (CapacityType.ON_DEMAND, CapacityType.SPOT)
    ]
    return UsageDocument(
        version=1,
        region=region,
        cluster=region,
        observer="visit",
        hour=hour,
        all_pods=True,
        covered=[Window(hour, hour + timedelta(hours=1))],
        nodes=nodes,
        pods=[],
    )
