"""The main path through a proxy that throttles, fails and drops answers as AWS does, on DynamoDB, SQS and S3."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from shared.aws import Aws, connect
from shared.clusters import names
from shared.errors import UnavailableError
from shared.jobs.model import Head, RetryPolicy
from shared.jobs.states import State
from tests.conftest import FleetResources
from tests.integration.region import REGION, Region, job, running_region
from tests.real import coherence
from workers.assembly import assemble

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

T = TypeVar("T")
SERVICES = {
    "dynamodb": ("ProvisionedThroughputExceededException", "InternalServerError"),
    "sqs": ("RequestThrottled", "InternalError"),
    "s3": ("SlowDown", "InternalError"),
}
DROPPED = {"abort_bytes": 0}
"""The request goes through and takes effect; the connection breaks before a byte of the answer's body."""


def rules(share: float) -> list[dict[str, Any]]:
    """For each service as many throttles, server errors and dropped answers: `share` of its requests each."""
    found: list[dict[str, Any]] = []
    for service, (throttle, failure) in SERVICES.items():
        found += [
            {"service": service, "probability": share, "error": {"code": throttle}},
            {"service": service, "probability": share, "error": {"code": failure, "status": 500}},
            {"service": service, "probability": share, "response": DROPPED},
        ]
    return found


class Proxy:
    """The rules and the log of a running microburst."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def obey(self, rules: list[dict[str, Any]]) -> None:
        async with httpx.AsyncClient(base_url=self.url) as client:
            (await client.post("/_microburst/rules", json=rules)).raise_for_status()

    async def fired(self) -> list[dict[str, Any]]:
        async with httpx.AsyncClient(base_url=self.url) as client:
            answer = await client.get("/_microburst/fired", params={"limit": 100_000})
        return list(answer.json())


@pytest.fixture
def proxy(microburst: str) -> Proxy:
    return Proxy(microburst)


@pytest.fixture
async def broken(fleet_resources: FleetResources, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Aws]:
    """Clients whose requests go through the proxy."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    async with connect(REGION, "dynamodb", "sqs", "s3") as clients:
        yield clients


@pytest.fixture
async def region(fleet_resources: FleetResources, broken: Aws, tmp_path: Path) -> AsyncIterator[Region]:
    async with running_region(fleet_resources, tmp_path, aws=broken, lease_seconds=5.0) as running:
        yield running


async def stubbornly(call: Callable[[], Awaitable[T]]) -> T:
    """As a client does that was answered 503: the same again."""
    while True:
        try:
            return await call()
        except UnavailableError:
            await asyncio.sleep(0.1)


async def test_a_dropped_answer_has_taken_effect(region: Region, proxy: Proxy, fleet_resources: FleetResources) -> None:
    await proxy.obey([{"service": "dynamodb", "operation": "PutItem", "times": 1, "response": DROPPED}])

    await region.core.table.put({"pk": "a", "sk": "b", "n": 1})

    (fired,) = await proxy.fired()
    assert fired["operation"] == "PutItem"
    straight = await assemble(fleet_resources.settings.model_copy(update={"regions": (REGION,)}), fleet_resources.aws)
    assert await straight.table.get({"pk": "a", "sk": "b"}) is not None


async def test_sixty_jobs_reach_their_right_ends_through_throttles_errors_and_dropped_answers(
    region: Region, proxy: Proxy, fleet_resources: FleetResources
) -> None:
    await proxy.obey(rules(0.05))
    for name in ("d1", "d2"):
        await stubbornly(lambda name=name: region.dispatcher(name, visibility=2))
    await region.observer()
    await region.sweeper()

    async def submit(number: int, **fields: Any) -> Head:
        return await stubbornly(lambda: region.submit(idempotency_key=f"job-{number}", **fields))

    plain = [submit(number, manifest=job(f"plain-{number}")) for number in range(40)]
    retry = RetryPolicy(max_attempts=3, backoff_seconds=0)
    retried = [submit(number, manifest=job(f"retried-{number}", exit_code="1,0"), retry=retry) for number in range(40, 50)]
    stopped = [submit(number, manifest=job(f"stopped-{number}", hang="true")) for number in range(50, 60)]
    ids = [head.id for head in await asyncio.gather(*plain, *retried, *stopped)]

    async def cancelled(job_id: str) -> None:
        await stubbornly(lambda: region.until(job_id, State.RUNNING, seconds=120))
        await stubbornly(lambda: region.cancel(job_id))

    await asyncio.gather(*(cancelled(job_id) for job_id in ids[50:]))
    ends = [stubbornly(lambda job_id=job_id: region.until(job_id, *TERMINAL, seconds=150)) for job_id in ids]
    done = await asyncio.gather(*ends)
    fired = await proxy.fired()
    await proxy.obey([])

    assert len(set(ids)) == 60
    assert [head.state for head in done] == [State.SUCCEEDED] * 50 + [State.CANCELLED] * 10
    starts = Counter(tuple(start.annotations[key] for key in (names.JOB_ID, names.EXECUTION)) for start in region.cluster.started)
    assert set(starts.values()) == {1}
    assert len(starts) == 70
    assert all(head.execution == (2 if 40 <= number < 50 else 1) for number, head in enumerate(done))
    straight = await assemble(fleet_resources.settings.model_copy(update={"regions": (REGION,)}), fleet_resources.aws)
    await coherence.check(straight, REGION, ids)
    assert {event["service"] for event in fired} == set(SERVICES)
    assert {event["service"] for event in fired if event["action"].startswith("response")} >= {"dynamodb", "sqs"}


TERMINAL = tuple(state for state in State if state.terminal)
