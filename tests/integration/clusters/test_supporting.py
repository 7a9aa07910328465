"""What stands beside a Job comes with it, goes with it, and is never somebody else's."""

import asyncio

import pytest

from shared.clusters.kinds import JOB, SUPPORTING
from shared.errors import UnavailableError
from shared.jobs.ports import RefusedError, StrangerError
from tests.integration.clusters.builders import AT, JOB_ID, NAMESPACE, bundle, config_map
from workers.local.cluster import Fault

CONFIG_MAP = SUPPORTING["v1", "ConfigMap"]
SETTINGS = CONFIG_MAP.path(NAMESPACE, "settings")
OTHER_JOB = "0198c0de-0000-7000-8000-00000000beef"


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


async def other_job(cluster, **plan: str):
    """Another job of the fleet, supported by a ConfigMap of the same name."""
    objects = bundle(job_id=OTHER_JOB, supporting=[config_map(rate="9", seed="1")], **plan)
    made = await cluster.create(objects, OTHER_JOB, 1, "abc")
    await cluster.support(objects, made)
    await cluster.release(NAMESPACE, made.name, made.uid, AT)
    return made


async def ended(cluster, api, made):
    """The other job, when its Job has ended."""
    async with asyncio.timeout(10):
        while True:
            seen = await cluster.read(NAMESPACE, made.name)
            if seen.complete or seen.failed_reason:
                return
            await asyncio.sleep(0.02)


async def test_what_supports_another_job_that_runs_is_never_taken_from_it(cluster, api):
    other = await other_job(cluster, hang="true")
    before = await api.request("GET", SETTINGS)
    objects = bundle(supporting=[config_map()])
    made = await cluster.create(objects, JOB_ID, 1, "abc")
    with pytest.raises(StrangerError, match=f"job {OTHER_JOB}, whose Job {other.name} .* has not ended"):
        await cluster.support(objects, made)
    assert await api.request("GET", SETTINGS) == before


async def test_what_supports_another_job_that_is_still_suspended_is_not_taken_either(cluster, api):
    objects = bundle(job_id=OTHER_JOB, supporting=[config_map(rate="9")])
    await cluster.support(objects, await cluster.create(objects, OTHER_JOB, 1, "abc"))
    mine = bundle(supporting=[config_map()])
    with pytest.raises(StrangerError, match=OTHER_JOB):
        await cluster.support(mine, await cluster.create(mine, JOB_ID, 1, "abc"))


@pytest.mark.parametrize("exit_code", ["0", "1"])
async def test_what_an_ended_job_left_behind_gives_way_with_all_that_was_in_it(cluster, api, exit_code):
    other = await other_job(cluster, duration="0.01", exit_code=exit_code)
    await ended(cluster, api, other)
    objects = bundle(supporting=[config_map(rate="0.1")])
    made = await cluster.create(objects, JOB_ID, 1, "abc")
    await cluster.support(objects, made)
    found = await api.request("GET", SETTINGS)
    assert found["data"] == {"rate": "0.1"}
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [made.uid]


async def test_what_a_job_that_is_gone_left_behind_gives_way(cluster, api):
    other = await other_job(cluster, hang="true")
    orphaning = {"propagationPolicy": "Orphan"}
    await api.request("DELETE", JOB.path(NAMESPACE, other.name), body=orphaning)
    objects = bundle(supporting=[config_map()])
    made = await cluster.create(objects, JOB_ID, 1, "abc")

    async with asyncio.timeout(10):
        while True:
            try:
                await cluster.support(objects, made)
                break
            except UnavailableError:
                await asyncio.sleep(0.05)

    found = await api.request("GET", SETTINGS)
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [made.uid]


async def test_of_two_jobs_that_find_what_was_left_behind_one_gets_the_name(cluster, api):
    await ended(cluster, api, await other_job(cluster, duration="0.01"))
    racers = [f"0198c0de-0000-7000-8000-00000000000{number}" for number in range(4)]
    bundles = [bundle(job_id=job_id, supporting=[config_map(rate=job_id[-1])]) for job_id in racers]
    made = [await cluster.create(objects, job_id, 1, "abc") for objects, job_id in zip(bundles, racers, strict=True)]

    async def support(number):
        async with asyncio.timeout(10):
            while True:
                try:
                    return await cluster.support(bundles[number], made[number])
                except UnavailableError:
                    await asyncio.sleep(0.02)

    results = await asyncio.gather(*(support(number) for number in range(4)), return_exceptions=True)

    winners = [number for number, result in enumerate(results) if result is None]
    assert len(winners) == 1
    assert all(isinstance(result, StrangerError) for result in results if result is not None)
    found = await api.request("GET", SETTINGS)
    assert found["data"] == {"rate": str(winners[0])}
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [made[winners[0]].uid]
