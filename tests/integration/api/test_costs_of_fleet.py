"""The fleet's cost group over reports in the bucket: totals by group and time, who sees what, and what is wrong with a question."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import timedelta
from decimal import Decimal

import pytest

from shared.costs.gpu_prices import AS_OF
from shared.costs.model import IDLE, UNALLOCATED, Window
from shared.costs.usage_documents import UsageDocument, document_key, encode
from shared.identity.callers import Caller, Right
from shared.store.objects import S3Objects
from tests.integration.api.conftest import serving, serving_caller
from tests.integration.costs.conftest import Hands
from tests.unit.costs.builders import REGION, at, node, pod
from workers.api.core import build
from workers.costing import costing
from workers.costs.build import build as build_worker

COSTS = "/fleet/v1/costs"
HOUR = timedelta(hours=1)
PRICE = Decimal("5.672")  # a g5.12xlarge of the table
ALL = frozenset(Right)


@pytest.fixture
async def core(fleet_resources, tmp_path):
    """An API over three hours of usage, which the worker has reported."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({REGION: {}}))
    settings = fleet_resources.settings.model_copy(update={"spot_prices_file": prices})
    clock = Hands(at("13:30"))
    objects = S3Objects(fleet_resources.aws.s3, settings.bucket)
    pods = [
        pod("a", "09:00", "10:30", job_id="j1", labels={"team": "vision", "stage": "1"}),
        pod("b", "10:00", "11:00", job_id="j2", namespace="nlp", submitted_by="bob", labels={"team": "text"}),
        pod("c", "10:00", "10:30", job_id="j1", execution=2, labels={"team": "vision", "stage": "1"}),
    ]
    for start in ("09:00", "10:00", "11:00", "12:00"):
        end = at(start) + HOUR
        document = UsageDocument(
            version=1,
            region=REGION,
            cluster=REGION,
            observer="o",
            hour=at(start),
            all_pods=True,
            covered=[Window(at(start), end)],
            nodes=[node("n1")],
            pods=[one for one in pods if one.start < end],
        )
        await objects.put(document_key(document), encode(document))
    await (await build_worker(settings, fleet_resources.aws, clock=clock)).due(REGION)
    made = await build(settings, fleet_resources.aws)
    costs = costing(settings, fleet_resources.aws, clock=clock)
    return dataclasses.replace(made, clock=clock, costing=costs, costs=costs.region(REGION))


@pytest.fixture
async def client(core):
    async with serving(core) as found:
        yield found


def _keys(answer) -> dict[str, Decimal]:
    return {one["key"]: Decimal(one["total_cost"]) for one in answer["totals"]}


async def _totals(client, **query):
    answer = await client.get(COSTS, params={"from": at("09:00").isoformat(), "to": at("12:00").isoformat()} | query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ({}, {"ml", "nlp", IDLE}),
        ({"by": "job"}, {"j1", "j2", IDLE}),
        ({"by": "execution"}, {"j1/1", "j1/2", "j2/1", IDLE}),
        ({"by": "submitter"}, {"ada", "bob", IDLE}),
        ({"by": "label", "label": "team"}, {"vision", "text", IDLE}),
        ({"by": "label", "label": "stage"}, {"1", UNALLOCATED, IDLE}),
        ({"by": "label"}, {"stage=1,team=vision", "team=text", IDLE}),
        ({"by": "instance_type"}, {"g5.12xlarge"}),
    ],
)
async def test_rows_add_up_to_what_the_nodes_cost_whatever_they_are_told_by(client, query, keys):
    answer = await _totals(client, **query)

    assert set(_keys(answer)) == keys
    assert sum(Decimal(one["total_cost"]) for one in answer["totals"]) == Decimal(answer["total_cost"]) == 3 * PRICE
    assert (answer["reports"], answer["missing"], answer["incomplete"]) == (3, [], 0)


async def test_a_job_costs_what_its_executions_do(client):
    jobs, executions = _keys(await _totals(client, by="job")), _keys(await _totals(client, by="execution"))

    assert jobs["j1"] == executions["j1/1"] + executions["j1/2"] > 0
    assert executions["j1/1"] == 3 * executions["j1/2"]


async def test_times_without_a_report_are_told(client):
    answer = await _totals(client, **{"from": at("07:00").isoformat(), "to": at("12:30").isoformat()})

    assert answer["missing"] == [
        {"start": "2026-05-17T07:00:00Z", "end": "2026-05-17T09:00:00Z"},
        {"start": "2026-05-17T12:00:00Z", "end": "2026-05-17T12:30:00Z"},
    ]
    assert answer["next_report_after"] == "2026-05-17T14:00:00Z"


async def test_of_a_time_without_any_report_no_sum_is_told(client):
    answer = await client.get(COSTS, params={"from": at("12:15").isoformat(), "to": at("12:30").isoformat()})

    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "Cost report 'us-east-1, 2026-05-17T12:15:00Z to 2026-05-17T12:30:00Z' not found "
        "(none of the schedule lies within this time; the next is written after 2026-05-17T14:00:00Z)"
    )


async def test_of_many_rows_some_are_told_and_the_sum_of_all(client):
    answer = await _totals(client, by="execution", limit=1)

    assert (len(answer["totals"]), answer["count"]) == (1, 4)
    assert Decimal(answer["total_cost"]) == 3 * PRICE


async def test_who_is_bound_to_a_namespace_sees_its_rows_and_nothing_of_what_was_idle(core):
    caller = Caller(name="bob", rights=ALL, namespaces=frozenset({"nlp"}))
    async with serving_caller(core, caller) as client:
        assert set(_keys(await _totals(client, by="job"))) == {"j2"}
        assert set(_keys(await _totals(client, by="instance_type"))) == {"g5.12xlarge"}
        assert Decimal((await _totals(client, by="instance_type"))["total_cost"]) < PRICE
        report = (await client.get(f"{COSTS}/reports/latest")).json()
        written = await client.post(f"{COSTS}/reports", json={"hours": 1})

    assert (report["totals"], report["summary"]) == ([], None)
    assert written.status_code == 403


async def test_reports_are_listed_and_shown_by_their_keys(client):
    listed = (await client.get(f"{COSTS}/reports", params={"limit": 2})).json()
    assert [one["window_start"] for one in listed["reports"]] == ["2026-05-17T12:00:00Z", "2026-05-17T11:00:00Z"]

    found = (await client.get(f"{COSTS}/reports/{listed['reports'][1]['key']}", params={"by": "namespace"})).json()
    latest = (await client.get(f"{COSTS}/reports/latest")).json()

    assert Decimal(found["total_cost"]) == PRICE
    assert Decimal(found["summary"]["node_cost"]) == PRICE
    assert found["summary"]["prices"] == [{"source": "table", "as_of": AS_OF.isoformat(), "cost": "5.672000000"}]
    assert latest["key"] == listed["reports"][0]["key"]


async def test_a_report_of_any_time_is_written(client):
    body = {"region": REGION, "start": "2026-05-17T09:15:00Z", "end": "2026-05-17T10:15:00+00:00"}

    written = await client.post(f"{COSTS}/reports", json=body)

    assert written.status_code == 201
    summary = written.json()
    assert summary["allocation_key"].startswith(f"adhoc/region={REGION}/date=2026-05-17/allocation-20260517T091500Z-20260517T101500Z-")
    assert Decimal(summary["total_cost"]) == PRICE
    listed = (await client.get(f"{COSTS}/reports", params={"adhoc": True})).json()
    assert [one["key"] for one in listed["reports"]] == [summary["allocation_key"]]


async def test_the_gco_door_tells_the_same(core):
    async with serving(core) as client:
        status = (await client.get("/api/v1/cost/status")).json()
        listed = (await client.get("/api/v1/cost/reports", params={"limit": 1})).json()
        made = await client.post("/api/v1/cost/reports", json={"window_hours": 2, "include_rows": True})

    assert status["last_scheduled_report"]["s3_key"] == listed["reports"][0]["key"]
    assert status["last_scheduled_report"]["total_cost"] == pytest.approx(float(PRICE))
    assert (status["allocation_names"], status["opencost_healthy"], status["last_error"]) == ([IDLE], False, None)
    assert made.status_code == 201
    assert made.json()["report"]["s3_key"].startswith("adhoc/")
    assert sum(row["total_cost"] for row in made.json()["rows"]) == pytest.approx(made.json()["report"]["total_cost"])


async def test_where_nobody_was_observed_the_reason_is_told(shared_core):
    async with serving(shared_core) as client:
        made = await client.post("/api/v1/cost/reports", json={})
        unknown = await client.post(f"{COSTS}/reports", json={})
        latest = await client.get(f"{COSTS}/reports/latest")
        status = (await client.get("/api/v1/cost/status")).json()

    assert made.status_code == 503
    assert "no observer of us-east-1 has told" in made.json()["detail"]
    assert unknown.status_code == 404
    assert "no observer of us-east-1 has told" in unknown.json()["detail"]
    assert latest.status_code == 404
    assert status["last_scheduled_report"] is None
    assert re.fullmatch(r"no scheduled report yet; the first comes after \d{4}-\d\d-\d\d \d\d:00 UTC", status["last_error"])


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"from": "2026-05-17T10:00:00Z", "to": "2026-05-17T10:00:00Z"}, "/to"),
        ({"from": "2026-03-17T10:00:00Z", "to": "2026-05-17T10:00:00Z"}, "/from"),
        ({"from": "2026-05-17T10:00:00"}, "/from"),
        ({"by": "colour"}, "/by"),
        ({"by": "job", "label": "team"}, "/label"),
        ({"by": "job", "label": ""}, "/label"),
        ({"region": "mars-1"}, "/region"),
        ({"limit": "0"}, "/limit"),
        ({"bogus": "1"}, "/bogus"),
    ],
)
async def test_what_is_wrong_with_a_question_is_told(shared_client, query, pointer):
    answer = await shared_client.get(COSTS, params=query)

    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["detail"]] == [pointer]


async def test_of_a_time_without_a_zone_what_was_sent_is_told(shared_client):
    text = "2026-05-17T10:00:00"

    asked = await shared_client.get(COSTS, params={"from": text})
    wanted = await shared_client.post(f"{COSTS}/reports", json={"start": text, "end": "2026-05-17T11:00:00Z"})

    for answer in (asked, wanted):
        (problem,) = answer.json()["detail"]
        assert problem["input"] == text
        assert "must be a time with a zone" in problem["msg"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"hours": 169}, "/hours"),
        ({"hours": 2, "start": "2026-05-17T10:00:00Z"}, "/hours"),
        ({"start": "2026-05-17T10:00:00Z"}, "/hours"),
        ({"start": "2026-05-17T10:00:00Z", "end": "2026-05-17T10:04:59Z"}, "/end"),
        ({"start": "2026-05-01T10:00:00Z", "end": "2026-05-17T10:00:00Z"}, "/end"),
        ({"start": "2126-05-17T12:00:00Z", "end": "2126-05-17T14:00:00Z"}, "/end"),
        ({"start": "2026-05-17T10:00:00.5Z", "end": "2026-05-17T11:00:00Z"}, "/start"),
        ({"start": "2026-05-17T10:00:00", "end": "2026-05-17T11:00:00Z"}, "/start"),
        ({"start": 5, "end": "2026-05-17T11:00:00Z"}, "/start"),
        ({"region": "mars-1"}, "/region"),
    ],
)
async def test_what_is_wrong_with_a_wanted_report_is_told(shared_client, body, pointer):
    answer = await shared_client.post(f"{COSTS}/reports", json=body)

    assert answer.status_code == 422, answer.text
    assert [problem["pointer"] for problem in answer.json()["detail"]] == [pointer]


@pytest.mark.parametrize(
    "key", ["nothing", "reports/region=us-east-1/date=2026-05-17/allocation-20260517T010000Z-20260517T020000Z.parquet"]
)
async def test_a_report_that_there_is_not(client, key):
    assert (await client.get(f"{COSTS}/reports/{key}")).status_code == 404


async def test_it_takes_rights(shared_core):
    async with serving_caller(shared_core, Caller(name="ann", rights=frozenset({Right.SUBMIT}))) as client:
        assert (await client.get(COSTS)).status_code == 403
        assert (await client.get(f"{COSTS}/reports")).status_code == 403
        assert (await client.post(f"{COSTS}/reports", json={})).status_code == 403
