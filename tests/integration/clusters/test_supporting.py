"""What stands beside a Job comes with it, goes with it, and is never somebody else's."""

import pytest

from shared.clusters.kinds import SUPPORTING
from shared.errors import UnavailableError
from shared.jobs.ports import RefusedError, StrangerError
from tests.integration.clusters.builders import JOB_ID, NAMESPACE, bundle, config_map
from workers.local.cluster import Fault

CONFIG_MAP = SUPPORTING["v1", "ConfigMap"]
SETTINGS = CONFIG_MAP.path(NAMESPACE, "settings")


async def test_it_is_applied_in_one_request_and_owned_by_the_job(cluster, api, counting):
    objects = bundle(supporting=[config_map()])
    made = await cluster.create(objects, JOB_ID, 1, "abc")
    counting.requests.clear()
    await cluster.support(objects, made)
    assert counting.requests == ["POST configmaps"]
    found = await api.request("GET", SETTINGS)
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [made.uid]


async def test_applying_again_changes_nothing(cluster, api):
    objects = bundle(supporting=[config_map()])
    made = await cluster.create(objects, JOB_ID, 1, "abc")
    await cluster.support(objects, made)
    await cluster.support(objects, made)
    found = await api.request("GET", SETTINGS)
    assert found["data"] == {"rate": "0.1"}
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [made.uid]


async def test_the_next_execution_shares_it_and_keeps_it(cluster, api):
    first, second = (bundle(execution=number, supporting=[config_map(rate=str(number))]) for number in (1, 2))
    one = await cluster.create(first, JOB_ID, 1, "abc")
    await cluster.support(first, one)
    two = await cluster.create(second, JOB_ID, 2, "abc")
    await cluster.support(second, two)
    found = await api.request("GET", SETTINGS)
    assert found["data"] == {"rate": "2"}
    assert {owner["uid"] for owner in found["metadata"]["ownerReferences"]} == {one.uid, two.uid}


async def test_a_stranger_of_the_same_name_is_left_alone(cluster, api):
    stranger = await api.request("POST", CONFIG_MAP.path(NAMESPACE), body=config_map(rate="9"))
    objects = bundle(supporting=[config_map()])
    made = await cluster.create(objects, JOB_ID, 1, "abc")
    with pytest.raises(StrangerError, match=stranger["metadata"]["uid"]):
        await cluster.support(objects, made)
    assert await api.request("GET", SETTINGS) == stranger


async def test_a_lost_answer_is_tried_again(cluster, server, api):
    objects = bundle(supporting=[config_map()])
    made = await cluster.create(objects, JOB_ID, 1, "abc")
    server.faults.add(Fault(method="POST", path="/configmaps$", action="apply_then_drop"))
    with pytest.raises(UnavailableError):
        await cluster.support(objects, made)
    await cluster.support(objects, made)
    assert (await api.request("GET", SETTINGS))["data"] == {"rate": "0.1"}


@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
async def test_a_refusal_is_final(cluster, server, status):
    objects = bundle(supporting=[config_map()])
    made = await cluster.create(objects, JOB_ID, 1, "abc")
    server.faults.add(Fault(method="POST", path="/configmaps$", action="answer", status=status))
    with pytest.raises(RefusedError):
        await cluster.support(objects, made)


async def test_a_kind_that_nobody_knows_is_refused(cluster):
    objects = bundle(supporting=[{"apiVersion": "v1", "kind": "Oddity", "metadata": {"name": "odd"}}])
    made = await cluster.create(objects, JOB_ID, 1, "abc")
    with pytest.raises(RefusedError, match="Oddity"):
        await cluster.support(objects, made)
