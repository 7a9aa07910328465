"""The cost group: its parameters, what it says while no worker measures costs, and its answers when one does."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.costs.reports import AllocationRow, Generated, Report, Status, StoredReport
from shared.identity.callers import Caller, Right
from tests.integration.api.conftest import serving, serving_caller

COST = "/api/v1/cost"
END = datetime(2026, 7, 26, 10, tzinfo=UTC)
START = END - timedelta(hours=24)


class Measured:
    """A region whose costs are known."""

    bucket = "costs"

    def __init__(self):
        self.asked = []
        self.report = Report(s3_key="adhoc/x.parquet", row_count=1, total_cost=Decimal("1.25"), window_start=START, window_end=END)

    async def status(self):
        return Status(
            cluster="c",
            bucket="costs",
            bucket_source="environment",
            bucket_parameter=None,
            report_interval_minutes=60,
            opencost_healthy=True,
            opencost_returning_data=True,
            allocation_names=["gco-jobs"],
            last_scheduled_report=self.report,
            last_error=None,
        )

    async def stored(self, *, adhoc, limit):
        self.asked.append((adhoc, limit))
        return [StoredReport(key="reports/x.parquet", size_bytes=7, last_modified=END)]

    async def generate(self, *, window_hours):
        self.asked.append(window_hours)
        numbers = {name: Decimal("0.5") for name, field in AllocationRow.model_fields.items() if field.annotation is Decimal}
        row = AllocationRow(window_start=START, window_end=END, cluster="c", namespace="gco-jobs", **numbers)
        return Generated(bucket=self.bucket, report=self.report, rows=[row])


@pytest.mark.parametrize(
    ("method", "path", "body"), [("GET", "status", None), ("GET", "reports?adhoc=true&limit=1000", None), ("POST", "reports", {})]
)
async def test_where_nothing_knows_of_costs_the_reason_is_told(shared_core, method, path, body):
    async with serving(dataclasses.replace(shared_core, costs=None)) as client:
        answer = await client.request(method, f"{COST}/{path}", json=body)

    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("Cost monitoring is unavailable in this region: ")
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("GET", "reports?limit=0", None, "/limit"),
        ("GET", "reports?limit=1001", None, "/limit"),
        ("GET", "reports?adhoc=maybe", None, "/adhoc"),
        ("GET", "reports?bogus=1", None, "/bogus"),
        ("GET", "status?bogus=1", None, "/bogus"),
        ("POST", "reports", {"window_hours": 0}, "/window_hours"),
        ("POST", "reports", {"window_hours": 169}, "/window_hours"),
        ("POST", "reports", {"window_hours": "24"}, "/window_hours"),
        ("POST", "reports", {"window_hours": True}, "/window_hours"),
        ("POST", "reports", {"include_rows": 1}, "/include_rows"),
        ("POST", "reports", {"surplus": 1}, "/surplus"),
        ("POST", "reports", [], ""),
    ],
)
async def test_bad_parameters_are_told_before_that(shared_client, method, path, body, pointer):
    answer = await shared_client.request(method, f"{COST}/{path}", json=body)

    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["detail"]] == [pointer]


async def test_a_worker_s_answers_are_told(shared_core):
    costs = Measured()
    async with serving(dataclasses.replace(shared_core, costs=costs)) as client:
        status = (await client.get(f"{COST}/status")).json()
        listed = (await client.get(f"{COST}/reports", params={"adhoc": True, "limit": 3})).json()
        made = await client.post(f"{COST}/reports", json={"window_hours": 5})
        full = (await client.post(f"{COST}/reports", json={"include_rows": True})).json()

    assert status.keys() == {
        "service", "region", "cluster", "bucket", "bucket_source", "bucket_parameter", "report_interval_minutes", "opencost_healthy",
        "opencost_returning_data", "allocation_names", "last_scheduled_report", "last_error", "timestamp",
    }  # fmt: skip
    assert status["last_scheduled_report"]["total_cost"] == 1.25
    assert listed.keys() == {"timestamp", "region", "bucket", "count", "reports"}
    assert listed["reports"] == [{"key": "reports/x.parquet", "size_bytes": 7, "last_modified": "2026-07-26T10:00:00Z"}]
    assert made.status_code == 201
    assert made.json().keys() == {"timestamp", "region", "bucket", "report"}
    assert full["rows"][0]["gpu_hours"] == 0.5
    assert len(full["rows"][0]) == 17
    assert costs.asked == [(True, 3), 5, 24]


async def test_reports_are_made_by_administrators(shared_core):
    caller = Caller(name="ann", rights=frozenset({Right.READ, Right.SUBMIT}))
    async with serving_caller(shared_core, caller) as client:
        assert (await client.post(f"{COST}/reports", json={})).status_code == 403
        assert (await client.get(f"{COST}/status")).status_code == 200


async def test_who_is_bound_to_namespaces_is_told_of_those_only(shared_core):
    rights = frozenset(Right)
    core = dataclasses.replace(shared_core, costs=Measured())
    async with serving_caller(core, Caller(name="bob", rights=rights, namespaces=frozenset({"other"}))) as client:
        status = (await client.get(f"{COST}/status")).json()
        made = await client.post(f"{COST}/reports", json={})
    assert (status["allocation_names"], status["last_scheduled_report"]) == ([], None)
    assert made.status_code == 403
