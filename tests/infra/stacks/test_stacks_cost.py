"""What an idle fleet costs besides its clusters: less than 15 USD a month."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from infra.functions import FUNCTIONS, ScheduleSource

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]
BOUND = 15
OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
RESULTS = Path(__file__).parents[3] / "bench" / "results.json"


@pytest.fixture
def bills(assemblies):
    from infra.cdk.cost import bill, resources_in

    return {name: bill(found.installation, resources_in(found.outdir, "gpufleet")) for name in ("one", "two", "five") for found in [assemblies[name]]}  # fmt: skip  # noqa: E501


def test_an_idle_fleet_costs_less_than_15_usd_a_month(bills):
    assert bills["one"].billed < bills["two"].billed < BOUND
    assert bills["one"].listed < BOUND


def test_what_is_beyond_that_by_list_prices_are_dashboards_which_an_account_has_for_nothing(bills):
    from infra.cdk.prices import DASHBOARD

    (dashboards,) = [line for line in bills["two"].lines if line.price == DASHBOARD]
    assert dashboards.billed == 0
    assert bills["two"].listed - dashboards.listed < BOUND


def test_counts_are_those_of_the_templates(two, bills):
    from infra.cdk import prices

    counts = {line.price: line.count for line in bills["two"].lines}
    assert counts[prices.DASHBOARD] == 3
    assert counts[prices.KEY] == 1
    minutes = 730 * 60
    calls = sum(
        Decimal(minutes) / source.minutes * len(source.payloads(two.installation.region_names))
        for one in FUNCTIONS
        for source in one.sources
        if isinstance(source, ScheduleSource)
    )
    assert counts[prices.CALL] == calls
    # Three queues with five pollers each, and three dispatchers in each of two regions; each asks three times a minute.
    assert counts[prices.SQS_REQUEST] == (3 * 5 + 2 * 3) * 3 * minutes


def test_what_an_idle_region_asks_of_the_table_is_no_less_than_was_measured():
    from infra.cdk.cost import TABLE_REQUESTS

    measured = [one["value"] for one in _figures(json.loads(RESULTS.read_text())) if one["name"] == "DynamoDB requests, idle"]
    assert measured
    assert max(measured) <= TABLE_REQUESTS


def _figures(found):
    if isinstance(found, dict):
        if {"name", "value"} <= set(found):
            yield found
        found = list(found.values())
    if isinstance(found, list):
        for one in found:
            yield from _figures(one)


def test_what_the_docs_say_of_a_cluster_is_the_sum_with_its_logs(two):
    from infra.cdk import prices
    from infra.cdk.cost import cluster_lines

    lines = {line.price: line for line in cluster_lines(two.installation)}
    assert two.template("us-east-1").one("AWS::EKS::Cluster")["Logging"]["ClusterLogging"]["EnabledTypes"]
    assert lines[prices.LOG_BYTE].listed > 1
    (told,) = re.findall(r"cluster without jobs is about (\d+) USD a month", OPERATIONS.read_text(encoding="utf-8"))
    assert int(told) == round(sum(line.listed for line in lines.values()))


def test_the_table_of_the_docs_has_a_line_for_each_price(bills):
    from infra.cdk.cost import table

    text = table([bills["one"], bills["two"]])
    assert text.splitlines()[0].count("|") == 8
    assert all(line.price.what in text for line in bills["two"].lines)
    assert f"**{bills['two'].billed:.2f}**" in text.splitlines()[-1]
