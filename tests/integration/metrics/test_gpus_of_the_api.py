"""What the API tells of GPUs and of the price of their metrics."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.identity.callers import Caller, Right
from shared.metrics.plan import PRICES_OF, UNCERTAIN
from shared.metrics.snapshots import Snapshots
from tests.integration.api.conftest import serving, serving_caller
from tests.unit.metrics.test_rollups import SNAPSHOT, gpu
from workers.api.core import build

REGIONS = ("us-east-1", "eu-west-1")
BOUND = Caller(name="key:a", rights=frozenset({Right.READ}), namespaces=frozenset({"a"}))


@pytest.fixture
async def core(fleet_resources):
    found = await build(fleet_resources.settings.model_copy(update={"regions": REGIONS, "metrics_seconds": 60.0}), fleet_resources.aws)
    split = (gpu("n9", 0, 0), gpu("n9", 0, 10, partition="0"))
    for region, age, more in (("us-east-1", 5, split), ("eu-west-1", 500, ())):
        at = datetime.now(UTC) - timedelta(seconds=age)
        await Snapshots(found.objects).put(replace(SNAPSHOT, region=region, at=at, gpus=(*SNAPSHOT.gpus, *more)))
    return found


async def get(core, path: str, caller: Caller | None = None, **params: object):
    async with serving_caller(core, caller) if caller else serving(core) as client:
        return await client.get(f"/fleet/v1/metrics/{path}", params=params)


async def test_all_gpus_are_told_with_the_age_of_what_is_known(core):
    answer = (await get(core, "gpus")).json()

    assert [(one["region"], one["stale"], one["gpus"], one["exporters_failed"]) for one in answer["regions"]] == [
        ("us-east-1", False, 6, 1),
        ("eu-west-1", True, 4, 1),
    ]
    assert 5 <= answer["regions"][0]["age_seconds"] < 60
    assert [one["error"] for one in answer["regions"][0]["exporters"]] == [None, "no whole answer within 10 s"]
    assert (answer["count"], answer["partial"]) == (10, False)
    first = answer["gpus"][0]
    assert first == {
        "region": "us-east-1",
        "node": "n1",
        "gpu": "0",
        "device": "n1-0",
        "uuid": "n1-0",
        "vendor": "amd",
        "model": None,
        "partition": None,
        "profile": None,
        "divided": False,
        "namespace": "a",
        "pod": "p",
        "container": None,
        "job_id": "j1",
        "execution": 1,
        "job_name": None,
        "project": "gold",
        "values": {"gpu_utilization": 90, "gpu_power": 100.5},
    }
    assert [(one["partition"], one["divided"]) for one in answer["gpus"] if one["node"] == "n9"] == [(None, True), ("0", False)]


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"region": "eu-west-1"}, 4),
        ({"node": "n2"}, 4),
        ({"namespace": "a"}, 6),
        ({"job_id": "j1", "region": "us-east-1"}, 2),
        ({"namespace": "b", "job_id": "j1"}, 0),
    ],
)
async def test_filters_choose(core, filters, count):
    assert (await get(core, "gpus", **filters)).json()["count"] == count


async def test_a_node_on_which_no_gpu_was_seen_is_not_told_as_an_empty_one(core):
    refused = await get(core, "gpus", node="n7")
    assert (refused.status_code, refused.json()["detail"]) == (404, "Node 'n7' not found")
    assert (await get(core, "gpus", node="n9", region="eu-west-1")).status_code == 404  # it is the other region's
    idle = next(one["node"] for one in (await get(core, "gpus")).json()["gpus"] if one["namespace"] is None)
    assert (await get(core, "gpus", node=idle)).status_code == 200
    assert (await get(core, "gpus", BOUND, node="n9")).status_code == 404  # nothing of theirs is on it


async def test_a_job_that_holds_no_gpu_is_not_told_as_an_empty_one(core):
    refused = await get(core, "gpus", job_id="x")

    assert (refused.status_code, refused.json()["detail"]) == (404, "Job 'x' not found (it held no GPU at the last scrape)")
    assert (await get(core, "gpus", job_id="j1")).status_code == 200
    assert (await get(core, "gpus", BOUND, job_id="j1")).status_code == 200


async def test_more_than_asked_for_is_told_as_partial(core):
    answer = (await get(core, "gpus", limit=3)).json()

    assert (len(answer["gpus"]), answer["count"], answer["partial"]) == (3, 10, True)


async def test_who_is_bound_to_namespaces_sees_what_they_hold_and_no_exporters(core):
    answer = (await get(core, "gpus", BOUND)).json()

    assert {one["namespace"] for one in answer["gpus"]} == {"a"}
    assert answer["count"] == 6
    assert [one["exporters"] for one in answer["regions"]] == [None, None]
    assert (await get(core, "gpus", BOUND, namespace="b")).status_code == 403
    assert (await get(core, "plan", BOUND)).status_code == 403


async def test_bad_questions_are_refused_by_name(core):
    assert (await get(core, "gpus", region="mars")).status_code == 404
    assert (await get(core, "gpus", limit=0)).status_code == 422
    for params, named in (
        ({"rollups": "node"}, "/rollups"),
        ({"rollups": "region,region"}, "/rollups"),
        ({"rollups": "region+x"}, "/rollups"),
        ({"measures": "temperature"}, "/measures"),
    ):
        refused = await get(core, "plan", **params)
        assert refused.status_code == 422
        assert named in refused.text


async def test_regions_that_were_never_read_are_left_out(fleet_resources):
    core = await build(fleet_resources.settings, fleet_resources.aws)

    answer = (await get(core, "gpus")).json()

    assert (answer["regions"], answer["gpus"]) == ([], [])
    assert (await get(core, "plan")).json()["metrics"] == 0


async def test_a_snapshot_that_can_not_be_read_is_told(core):
    await core.objects.put("metrics/region=us-east-1/latest.json.gz", b"x")

    assert (await get(core, "gpus")).status_code == 503
    assert (await get(core, "gpus", region="eu-west-1")).status_code == 200


async def test_the_plan_counts_and_prices_what_is_there(core):
    answer = (await get(core, "plan")).json()

    assert answer["metrics"] == sum(one["metrics"] for one in answer["rollups"])
    assert [one["labels"] for one in answer["rollups"]] == [
        ["region"],
        ["region", "node"],
        ["region", "namespace"],
        ["region", "project"],
        ["region", "namespace", "job_id"],
        [],
    ]
    assert float(answer["metrics_usd"]) == pytest.approx(answer["metrics"] * 0.3)
    assert answer["requests"] == 2 * 730 * 60
    assert (answer["prices_of"], answer["uncertain"]) == (PRICES_OF.isoformat(), list(UNCERTAIN))
    devices = (await get(core, "plan", rollups="region+node+device", measures="gpu_power")).json()
    assert devices["rollups"][0] == {"labels": ["region", "node", "device"], "groups": 10, "metrics": 10}
    assert devices["metrics"] == 10 + 6
    assert (await get(core, "plan", rollups="")).json()["metrics"] == 0
