"""From a job on a cluster to its row in a report: dispatcher, observer and the reports, over the wire."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.costs.model import IDLE_OR_OTHER, RowKind, Window, exact_sum
from shared.jobs.states import State
from tests.integration.region import REGION, job, running_region
from workers.costing import costing


@pytest.fixture
async def region(fleet_resources, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({REGION: {"g5.12xlarge": "3.6"}}))
    async with running_region(fleet_resources, tmp_path, usage_write_seconds=1, spot_prices_file=prices) as found:
        yield found


async def test_a_job_s_row_is_in_a_report_that_adds_up(region):
    await region.dispatcher()
    await region.observer(region.usage_account())
    manifest = job(duration=2)
    manifest["metadata"]["labels"] = {"team": "audio", "cost-centre": "7"}
    head = await region.submit(manifest=manifest, labels={"team": "vision"}, submitted_by="ada")
    await region.until(head.id, State.SUCCEEDED)
    costs = costing(region.settings, region.aws)
    reporter = costs.reporter(REGION)

    async with asyncio.timeout(30):
        while True:
            end = datetime.now(UTC).replace(microsecond=0)
            keys, written = await reporter.adhoc(Window(end - timedelta(minutes=5), end))
            if written.summary.jobs_cost:
                break
            await asyncio.sleep(0.2)

    account = await costs.store.account(keys)
    (row,) = [row for row in account.rows if row.kind is RowKind.JOB]
    assert (row.job_id, row.job_name, row.execution) == (head.id, "train", 1)
    assert (row.namespace, row.submitted_by, row.labels) == ("gco-jobs", "ada", {"team": "vision", "cost-centre": "7"})
    assert row.cpu_core_seconds >= Decimal("0.01")
    assert exact_sum(one.total_cost for one in account.rows) == account.basis.node_cost == written.summary.node_cost > 0
    rows = await costs.store.rows(keys)
    assert {one.namespace for one in rows} == {"gco-jobs", IDLE_OR_OTHER}
    assert exact_sum(one.total_cost for one in rows) == account.basis.node_cost
    assert {one.source for one in written.summary.prices} == {"file", "table"}
