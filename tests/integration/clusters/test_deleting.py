"""Deletion by UID, done when the pods are gone."""

import pytest

from shared.clusters.feeds import job_feed, pod_feed
from shared.clusters.watch import Deleted, Listed
from shared.errors import UnavailableError
from tests.integration.clusters.builders import AT, JOB_ID, NAMESPACE, bundle, runs, until
from workers.local.cluster import Fault


@pytest.fixture
async def running(cluster, api):
    made = await cluster.create(bundle(hang="true"), JOB_ID, 1, "abc")
    await cluster.release(NAMESPACE, made.name, made.uid, AT)
    await until(pod_feed(api), runs)
    return made


async def test_what_runs_is_gone_only_after_its_pods(cluster, api, running):
    assert not await cluster.delete(NAMESPACE, running.name, running.uid)
    await until(job_feed(api), lambda item: item == Listed(objects=[]) or isinstance(item, Deleted))
    assert await cluster.delete(NAMESPACE, running.name, running.uid)


async def test_a_second_deletion_of_what_is_going_is_not_done_either(cluster, running):
    assert not await cluster.delete(NAMESPACE, running.name, running.uid)
    assert (await cluster.read(NAMESPACE, running.name)).deleting
    assert not await cluster.delete(NAMESPACE, running.name, running.uid)


async def test_what_never_ran_goes_at_once(cluster):
    made = await cluster.create(bundle(), JOB_ID, 1, "abc")
    assert await cluster.delete(NAMESPACE, made.name, made.uid)
    assert await cluster.read(NAMESPACE, made.name) is None


async def test_another_uid_under_the_name_stays_and_ours_counts_as_gone(cluster):
    made = await cluster.create(bundle(), JOB_ID, 1, "abc")
    assert await cluster.delete(NAMESPACE, made.name, "0000")
    seen = await cluster.read(NAMESPACE, made.name)
    assert (seen.uid, seen.deleting) == (made.uid, False)


async def test_a_conflict_while_ours_stands_is_tried_again(cluster, server):
    made = await cluster.create(bundle(), JOB_ID, 1, "abc")
    server.faults.add(Fault(method="DELETE", action="answer", status=409))
    with pytest.raises(UnavailableError):
        await cluster.delete(NAMESPACE, made.name, made.uid)


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_a_deletion_that_was_not_let_is_tried_again(cluster, server, status):
    server.faults.add(Fault(method="DELETE", action="answer", status=status))
    with pytest.raises(UnavailableError):
        await cluster.delete(NAMESPACE, "train", "0000")


async def test_what_is_not_there_is_gone(cluster):
    assert await cluster.delete(NAMESPACE, "nothing", "0000")
