"""The fleet's health over HTTP: to Prometheus, without a caller, and to callers of the fleet's own door."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from shared.errors import UnavailableError
from shared.health.beats import Beat
from shared.health.model import FleetHealth, LoopState
from shared.store.beats import Beats
from tests.integration.api.conftest import manifest
from workers.api.app import create_app
from workers.api.core import Core, build
from workers.api.figures import Figures


@pytest.fixture
async def core(fleet_resources) -> Core:
    return await build(fleet_resources.settings.model_copy(update={"identity": ("keys",)}), fleet_resources.aws)


@pytest.fixture
async def open_core(fleet_resources) -> Core:
    return await build(fleet_resources.settings, fleet_resources.aws)


def serving(core: Core, figures: Figures | None = None) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=create_app(core, figures=figures), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://fleet")


@pytest.fixture
async def client(open_core) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(open_core, Figures()) as found:
        yield found


async def samples(client: httpx.AsyncClient) -> dict[tuple, float]:
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_metrics_need_no_caller_and_health_does(core):
    async with serving(core) as client:
        found = await samples(client)
        assert found[("fleet_ready_jobs", ("region", core.settings.regions[0]))] == 0
        assert found[("fleet_health_unread",)] == len(core.settings.regions)  # no observer has ever told of one
        assert not [name for name, *_ in found if name.startswith("api_request")]  # as on Lambda
        assert (await client.get("/fleet/v1/health")).status_code == 401
        assert (await client.post("/metrics")).status_code in {401, 405}


async def test_requests_are_counted_by_route_and_status(client):
    submitted = await client.post(
        "/api/v1/queue/jobs", json={"manifest": manifest(), "target_region": "us-east-1", "namespace": "gco-jobs"}
    )
    assert submitted.status_code == 201
    job_id = submitted.json()["job"]["job_id"]
    for path in (f"/api/v1/queue/jobs/{job_id}", "/api/v1/queue/jobs/unknown", "/api/v1/queue/jobs/other", "/no/such/path"):
        await client.get(path)
    await client.request("BREW", "/no/such/path")
    found = await samples(client)

    def count(method: str, route: str, status: int) -> float:
        return found[("api_request_seconds_count", ("method", method), ("route", route), ("status", str(status)))]

    assert count("POST", "/api/v1/queue/jobs", 201) == 1
    assert count("GET", "/api/v1/queue/jobs/{job_id}", 200) == 1
    assert count("GET", "/api/v1/queue/jobs/{job_id}", 404) == 2
    assert count("other", "other", 404) == 2
    assert job_id not in str(found)
    assert found[("fleet_ready_jobs", ("region", "us-east-1"))] == 1
    assert ("process_cpu_seconds_total",) in found


async def test_health_tells_the_same_as_the_model(client, open_core):
    now = open_core.clock.now()
    await Beats(open_core.table).put(Beat(worker="sweeper", owner="all/host/1", at=now, passed_at=now))
    answer = await client.get("/fleet/v1/health")
    health = FleetHealth.model_validate(answer.json())
    assert [(loop.worker, loop.region, loop.state) for loop in health.loops] == [("sweeper", None, LoopState.WELL)]
    assert [one.region for one in health.regions] == list(open_core.settings.regions)
    assert health.idle


async def test_where_the_table_does_not_answer(client, open_core, monkeypatch):
    async def away(*_, **__):
        raise UnavailableError("DynamoDB: away")

    monkeypatch.setattr("shared.store.backlogs.Backlogs.overview", away)
    found = await samples(client)
    assert found[("fleet_health_unread",)] == 1
    assert not [name for name, *_ in found if name.startswith("fleet_ready")]
    assert (await client.get("/fleet/v1/health")).status_code == 503
