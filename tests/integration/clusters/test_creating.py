"""Creating and adopting: one object for one execution, whatever the API server answers."""

import pytest

from shared.clusters.kinds import JOB
from shared.errors import UnavailableError
from shared.jobs.ports import RefusedError, StrangerError
from tests.integration.clusters.builders import JOB_ID, NAMESPACE, bundle
from workers.local.cluster import Fault

CREATE = (JOB_ID, 1, "abc")


async def jobs(api) -> list[dict]:
    return (await api.request("GET", JOB.path(NAMESPACE)))["items"]


async def test_an_object_is_created_suspended_in_one_request(cluster, counting):
    made = await cluster.create(bundle(), *CREATE)
    assert made.suspended
    assert not made.is_released
    assert (made.namespace, made.name, made.job_id, made.execution) == (NAMESPACE, "train-0123456789ab-1", JOB_ID, 1)
    assert made.created_at is not None
    assert made.created_at.tzinfo is not None
    assert counting.requests == ["POST jobs"]
    assert (await cluster.read(NAMESPACE, made.name)).uid == made.uid


async def test_an_object_that_is_ours_is_adopted(cluster, api):
    first = await cluster.create(bundle(), *CREATE)
    assert (await cluster.create(bundle(), *CREATE)).uid == first.uid
    assert len(await jobs(api)) == 1


@pytest.mark.parametrize("fault", [{"action": "apply_then_answer", "status": 504}, {"action": "apply_then_drop"}])
async def test_a_lost_answer_is_looked_up_and_the_object_adopted(cluster, server, api, fault):
    server.faults.add(Fault(method="POST", path="/jobs$", **fault))
    made = await cluster.create(bundle(), *CREATE)
    assert [job["metadata"]["uid"] for job in await jobs(api)] == [made.uid]


async def test_a_request_that_takes_too_long_is_looked_up(counting, server):
    from shared.clusters.api import KubernetesApi
    from shared.clusters.cluster import KubernetesCluster

    server.faults.add(Fault(method="POST", path="/jobs$", action="delay", delay=60))
    with pytest.raises(UnavailableError, match="no answer within"):
        await KubernetesCluster(KubernetesApi(counting, timeout=0.2)).create(bundle(), *CREATE)
    assert counting.requests == ["POST jobs", "GET train-0123456789ab-1"]


@pytest.mark.parametrize("fault", [{"action": "answer", "status": 504}, {"action": "answer", "status": 500}, {"action": "drop"}])
async def test_an_open_answer_after_which_nothing_is_found_is_open(cluster, server, api, fault):
    server.faults.add(Fault(method="POST", path="/jobs$", **fault))
    with pytest.raises(UnavailableError):
        await cluster.create(bundle(), *CREATE)
    assert await jobs(api) == []


async def test_an_open_answer_whose_lookup_fails_too_is_open(cluster, server):
    server.faults.add(Fault(method="POST", path="/jobs$", action="apply_then_answer", status=504))
    server.faults.add(Fault(method="GET", path="/jobs/", action="answer", status=503))
    with pytest.raises(UnavailableError, match="POST"):
        await cluster.create(bundle(), *CREATE)


async def test_a_throttled_create_is_not_looked_up_and_tells_when_to_come_again(cluster, server, counting):
    server.faults.add(Fault(method="POST", path="/jobs$", action="answer", status=429, retry_after=7))
    with pytest.raises(UnavailableError) as caught:
        await cluster.create(bundle(), *CREATE)
    assert caught.value.retry_after == 7
    assert counting.requests == ["POST jobs"]


async def test_a_stranger_of_the_same_name_is_named_and_left_alone(cluster, api):
    job = {**bundle().job, "metadata": {"name": "train-0123456789ab-1", "labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    stranger = await api.request("POST", JOB.path(NAMESPACE), body=job)
    with pytest.raises(StrangerError) as caught:
        await cluster.create(bundle(), *CREATE)
    for part in (NAMESPACE, "train-0123456789ab-1", stranger["metadata"]["uid"], "Helm"):
        assert part in str(caught.value)
    (left,) = await jobs(api)
    assert (left["metadata"]["uid"], left["metadata"]["labels"]) == (stranger["metadata"]["uid"], stranger["metadata"]["labels"])
    assert (left["metadata"]["generation"], left["spec"]) == (stranger["metadata"]["generation"], stranger["spec"])
    assert await cluster.read(NAMESPACE, "train-0123456789ab-1") is None


async def test_an_object_of_another_specification_is_a_stranger(cluster):
    await cluster.create(bundle(spec_hash="other"), JOB_ID, 1, "other")
    with pytest.raises(StrangerError, match=JOB_ID):
        await cluster.create(bundle(), *CREATE)


async def test_a_namespace_that_is_not_there_is_a_refusal_in_the_servers_words(cluster):
    with pytest.raises(RefusedError, match='namespaces "nowhere" not found'):
        await cluster.create(bundle(namespace="nowhere"), *CREATE)


@pytest.mark.parametrize("status", [400, 403, 413, 422])
async def test_other_refusals_are_final(cluster, server, status):
    server.faults.add(Fault(method="POST", path="/jobs$", action="answer", status=status))
    with pytest.raises(RefusedError):
        await cluster.create(bundle(), *CREATE)


@pytest.mark.parametrize("status", [401, 409, 500, 502, 503])
async def test_what_passes_with_time_is_no_refusal(cluster, server, status):
    server.faults.add(Fault(method="POST", path="/jobs$", action="answer", status=status))
    with pytest.raises(UnavailableError):
        await cluster.create(bundle(), *CREATE)


async def test_what_is_not_there_reads_as_none(cluster):
    assert await cluster.read(NAMESPACE, "nothing") is None


async def test_not_being_allowed_to_read_says_nothing_of_the_object(cluster, server):
    server.faults.add(Fault(method="GET", action="answer", status=403))
    with pytest.raises(UnavailableError):
        await cluster.read(NAMESPACE, "nothing")
