"""The API's packages behind API Gateway."""

from __future__ import annotations

import base64
import json

import pytest

from tests.infra.lambdas.eks_stage import eks_stage
from tests.infra.lambdas.events import ARN, iam, jwt, request
from tests.infra.lambdas.usage import ledger
from tests.integration.api.conftest import submission
from tests.integration.region import REGION, running_region

pytestmark = pytest.mark.infra

KNOWN = {"authorizer": iam()}


def body_of(answer):
    text = base64.b64decode(answer["body"]).decode() if answer.get("isBase64Encoded") else answer["body"]
    return json.loads(text)


async def test_a_job_is_submitted_shown_and_cancelled(deployed):
    api = await deployed("api")

    made = await api(request("POST", "/api/v1/queue/jobs", submission(), **KNOWN, **{"idempotency-key": "k-1"}))
    again = await api(request("POST", "/api/v1/queue/jobs", submission(), **KNOWN, **{"idempotency-key": "k-1"}, encoded=True))
    job = body_of(made)["job"]
    shown = await api(request("GET", f"/fleet/v1/jobs/{job['job_id']}", **KNOWN))
    cancelled = await api(request("DELETE", f"/api/v1/queue/jobs/{job['job_id']}", query={"reason": "a test"}, **KNOWN))

    assert [one["statusCode"] for one in (made, again, shown, cancelled)] == [201, 200, 200, 200]
    assert job["submitted_by"] == ARN
    assert body_of(again)["job"]["job_id"] == job["job_id"]
    assert made["headers"]["content-type"] == "application/json"


async def test_errors_are_told_as_by_a_server(deployed):
    api = await deployed("api")

    answers = [
        await api(request("POST", "/api/v1/queue/jobs", {"priority": "high"}, **KNOWN)),
        await api(request("POST", "/api/v1/queue/jobs", "{", **KNOWN)),
        await api(request("GET", "/api/v1/queue/jobs/none", **KNOWN)),
        await api(request("GET", "/nowhere", **KNOWN)),
        await api(request("PATCH", "/api/v1/queue/jobs", **KNOWN)),
        await api(request("GET", "/api/v1/queue/jobs")),
        await api(request("GET", "/api/v1/queue/jobs", cookies=["session=abc", "arn=" + ARN])),
        await api(request("POST", "/api/v1/queue/jobs", {"manifest": "x" * (6 * 1024 * 1024)}, **KNOWN)),
    ]

    assert [one["statusCode"] for one in answers] == [422, 422, 404, 404, 405, 401, 401, 413]
    assert all(body_of(one)["request_id"] for one in answers)


async def test_a_caller_with_a_token_may_do_what_it_says(deployed):
    api = await deployed("api", GPUFLEET_IDENTITY="iam,jwt")
    reader = {"authorizer": jwt("openid", "gpufleet/read", gpufleet_namespaces="[gco-jobs]")}

    read = await api(request("GET", "/api/v1/queue/jobs", **reader))
    refused = await api(request("POST", "/api/v1/queue/jobs", submission(), **reader))
    nobody = await api(request("GET", "/api/v1/queue/jobs", authorization="Bearer eyJhbGciOiJub25lIn0.e30."))

    assert [one["statusCode"] for one in (read, refused, nobody)] == [200, 403, 401]


async def test_a_large_body_comes_through(deployed):
    api = await deployed("api")
    manifest = submission()
    manifest["manifest"]["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "DATA", "value": "ä" * 400_000}]

    made = await api(request("POST", "/api/v1/queue/jobs", manifest, **KNOWN, encoded=True))
    page = await api(request("GET", "/api/v1/queue/jobs", query={"limit": "1", "status": "queued"}, **KNOWN))

    assert made["statusCode"] == 201, body_of(made)
    assert body_of(page)["count"] == 1


async def test_every_door_opens_and_what_it_needs_is_there(deployed):
    """Groups of routes are imported when first asked for: one request to each, and the description of all."""
    api = await deployed("api")
    asked = [
        ("/openapi.json", {}),
        ("/api/v1/health", {}),
        ("/readyz", {}),
        ("/metrics", {}),
        ("/api/v1/status", {}),
        ("/api/v1/policy", {}),
        ("/api/v1/templates", {}),
        ("/api/v1/webhooks", {}),
        ("/api/v1/queue/stats", {}),
        ("/fleet/v1/health", {}),
        ("/fleet/v1/rejections", {}),
        ("/fleet/v1/dead-letters", {}),
        ("/fleet/v1/keys", {}),
        ("/fleet/v1/metrics/range", {"measure": "gpu_utilization", "by": "region"}),
        ("/fleet/v1/metrics/gpus", {}),
        ("/fleet/v1/webhooks", {}),
        ("/fleet/v1/schemas/submission", {}),
    ]

    answers = {path: await api(request("GET", path, query=query, **KNOWN)) for path, query in asked}

    assert {path: answer["statusCode"] for path, answer in answers.items() if answer["statusCode"] not in {200, 503}} == {}
    assert "Traceback" not in api.log, api.log
    assert len(body_of(answers["/openapi.json"])["paths"]) > 40


async def test_a_webhook_with_a_secret_is_made_and_deleted(deployed):
    api = await deployed("api", GPUFLEET_WEBHOOK_LOCAL="true")
    wanted = {"url": "http://127.0.0.1:9/hook", "events": ["job.completed"], "secret": "a-secret-of-length"}

    made = await api(request("POST", "/api/v1/webhooks", wanted, **KNOWN))
    assert made["statusCode"] == 201, made
    gone = await api(request("DELETE", f"/api/v1/webhooks/{body_of(made)['webhook']['id']}", **KNOWN))

    assert gone["statusCode"] == 200, gone


async def test_the_cluster_of_the_region_is_reached_with_the_functions_own_credentials(deployed, fleet_resources, aws_endpoint, tmp_path):
    async with (
        running_region(fleet_resources, tmp_path) as region,
        eks_stage(upstream=region.server.url, sts=aws_endpoint, name="gpu-us", region=REGION) as stage,
    ):
        api = await deployed("api", GPUFLEET_EKS_CLUSTERS="us-east-1=gpu-us", AWS_ENDPOINT_URL_EKS=stage.eks)
        manifest = submission()["manifest"]

        applied = await api(request("POST", "/api/v1/manifests", {"manifests": [manifest], "namespace": "gco-jobs"}, **KNOWN))
        listed = await api(request("GET", "/api/v1/jobs", query={"label_selector": "!none"}, **KNOWN))

    assert (applied["statusCode"], listed["statusCode"]) == (200, 200), applied
    assert [one["metadata"]["name"] for one in body_of(listed)["jobs"]] == [manifest["metadata"]["name"]]
    assert stage.refused == []


async def test_the_function_of_submissions_says_that_it_knows_no_costs(deployed):
    api = await deployed("api")

    answers = [await api(request("GET", path, **KNOWN)) for path in ("/fleet/v1/costs", "/api/v1/cost/status")]

    assert [one["statusCode"] for one in answers] == [503, 503]
    assert "costs are unknown here" in body_of(answers[0])["detail"]
    assert "Traceback" not in api.log, api.log


async def test_reports_of_costs_are_read_and_written_by_their_own_function(deployed, fleet_resources):
    await ledger(fleet_resources, hours=2)
    api = await deployed("api-costs")

    written = await api(request("POST", "/fleet/v1/costs/reports", {"hours": 1}, **KNOWN))
    assert written["statusCode"] == 201, written
    totals = await api(request("GET", f"/fleet/v1/costs/reports/{body_of(written)['allocation_key']}", query={"by": "job"}, **KNOWN))
    listed = await api(request("GET", "/api/v1/cost/reports", query={"adhoc": "true"}, **KNOWN))
    nothing = await api(request("POST", "/api/v1/cost/reports", {"window_hours": 1}, **KNOWN))

    assert totals["statusCode"] == 200, totals
    assert [row["key"] for row in body_of(totals)["totals"]][:1] != []
    assert listed["statusCode"] == 200, listed
    assert nothing["statusCode"] in {200, 201}, nothing
    assert "Traceback" not in api.log, api.log
