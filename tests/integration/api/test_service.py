"""What the service says of itself, and what it does when a part is missing."""

from __future__ import annotations

import re

import pytest

from shared.errors import UnavailableError
from shared.jobs.placement import ClusterReport
from shared.store.table import Table
from tests.integration.api.conftest import serving


async def test_the_index_names_every_endpoint_of_the_queue(shared_client):
    body = (await shared_client.get("/")).json()

    assert body.keys() == {"service", "version", "status", "cluster_id", "region", "endpoints"}
    assert (body["service"], body["status"], body["region"]) == ("gpufleet", "running", "us-east-1")
    assert "POST /api/v1/queue/jobs" in body["endpoints"].values()


async def test_the_page_of_the_documentation_needs_nobody_else(shared_client):
    """Neither a CDN nor the internet: all that the page loads is served here."""
    page = await shared_client.get("/docs")
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert len(loaded) == 3
    for path in loaded:
        assert path.startswith("/docs/files/")
        assert (await shared_client.get(path)).status_code == 200
    assert "url: '/openapi.json'" in page.text
    assert (await shared_client.get("/docs/files/nothing.js")).status_code == 404


async def test_without_the_package_of_its_scripts_the_page_still_comes(shared_core, monkeypatch):
    monkeypatch.setattr("workers.api.documentation._PACKAGE", "no_such_package")
    async with serving(shared_core) as client:
        page = await client.get("/docs")

    assert "https://cdn.jsdelivr.net/" in page.text


async def test_probes(shared_client):
    assert (await shared_client.get("/healthz")).json() == {"status": "ok"}
    assert (await shared_client.get("/readyz")).json() == {"status": "ready"}


async def test_health_tells_whether_the_cluster_was_observed_lately(client, core):
    before = (await client.get("/api/v1/health")).json()
    await core.reports.put(ClusterReport(region="us-east-1", at=core.clock.now(), nodes=1, gpus_total=8, gpus_free=8))
    after = (await client.get("/api/v1/health")).json()

    assert before.keys() == {"status", "timestamp", "cluster_id", "region", "kubernetes_api"}
    assert (before["status"], before["kubernetes_api"]) == ("healthy", "disconnected")
    assert (after["status"], after["kubernetes_api"]) == ("healthy", "connected")


async def test_status_tells_the_limits_that_are_enforced(shared_client):
    body = (await shared_client.get("/api/v1/status")).json()

    assert body["resource_limits"] == {"max_cpu_millicores": 384_000, "max_memory_bytes": 4096 * 1024**3, "max_gpu_count": 16}
    assert body["allowed_namespaces"] == ["gco-jobs"]
    assert body["environment"]["max_gpu_per_manifest"] == "16"


@pytest.fixture
def table_away(monkeypatch):
    async def away(self, *_, **__):
        raise UnavailableError("throttled", retry_after=2.5)

    for operation in ("get", "batch_get", "query", "transact"):
        monkeypatch.setattr(Table, operation, away)


@pytest.mark.usefixtures("table_away")
async def test_without_its_table_the_service_says_so_and_when_to_come_again(shared_client):
    from tests.integration.api.conftest import submission

    health = await shared_client.get("/api/v1/health")
    ready = await shared_client.get("/readyz")
    submitted = await shared_client.post("/api/v1/queue/jobs", json=submission())

    assert (health.status_code, health.json()["status"]) == (503, "unhealthy")
    assert ready.status_code == 503
    assert (submitted.status_code, submitted.headers["retry-after"]) == (503, "3")
    assert "throttled" not in submitted.text


async def test_what_nobody_expected_is_a_500_with_a_request_id(shared_client, shared_core, monkeypatch):
    async def broken(*_, **__):
        raise RuntimeError("secret inside")

    monkeypatch.setattr(shared_core.counters, "by_region", broken)
    answer = await shared_client.get("/api/v1/queue/stats", headers={"X-Request-ID": "mine"})

    request_id = answer.headers["x-request-id"]
    assert answer.status_code == 500
    assert answer.json() == {"detail": f"Internal server error (request-id: {request_id})", "request_id": request_id}
    assert request_id != "mine"


async def test_every_answer_has_a_request_id_of_its_own(shared_client):
    answers = [await shared_client.get(path) for path in ("/healthz", "/healthz", "/nowhere")]

    assert len({answer.headers["x-request-id"] for answer in answers}) == 3
    assert answers[2].json() == {"detail": "Not Found: there is nothing at /nowhere", "request_id": answers[2].headers["x-request-id"]}
