"""Following a cluster: everything that happens is told once it has, whatever becomes of the watch."""

import asyncio
from contextlib import aclosing

import pytest

from shared.clusters.feeds import OURS, job_feed, node_feed, pod_feed
from shared.clusters.kinds import JOB
from shared.clusters.observed import observed
from shared.clusters.pods import PodIndex
from shared.clusters.watch import Changed, Deleted, Feed, Listed
from tests.integration.clusters.builders import AT, NAMESPACE, Pauses, bundle, changed, ended, until, upcoming
from workers.local.cluster import Fault


def job_id(number: int) -> str:
    return f"0198c0de-0000-7000-8000-{number:012x}"


async def create(cluster, number: int, **plan: str):
    return await cluster.create(bundle(job_id=job_id(number), **plan), job_id(number), 1, "abc")


def uids(listed) -> set[str]:
    assert isinstance(listed, Listed)
    return {seen.uid for seen in listed.objects}


def feed_of(api, **options):
    return Feed(api, JOB, observed, selector=OURS, **options)


async def test_a_list_comes_first_then_what_changes_and_what_goes(cluster, api):
    one = await create(cluster, 1)
    async with asyncio.timeout(10), aclosing(aiter(job_feed(api))) as items:
        assert uids(await anext(items)) == {one.uid}
        two = await create(cluster, 2)
        assert (await upcoming(items, changed(job_id(2)))).object.uid == two.uid
        await cluster.delete(NAMESPACE, one.name, one.uid)
        gone = await upcoming(items, lambda item: isinstance(item, Deleted))
    assert gone.object.uid == one.uid


async def test_a_list_is_read_in_pages(cluster, api, counting):
    made = [await create(cluster, number) for number in range(5)]
    counting.requests.clear()
    async with asyncio.timeout(10), aclosing(aiter(feed_of(api, page=2))) as items:
        listed = await anext(items)
    assert uids(listed) == {seen.uid for seen in made}
    assert counting.requests == ["GET jobs"] * 3


async def test_strangers_are_not_seen(cluster, api):
    await api.request("POST", JOB.path(NAMESPACE), body={**bundle().job, "metadata": {"name": "foreign"}})
    one = await create(cluster, 1)
    async with asyncio.timeout(10), aclosing(aiter(job_feed(api))) as items:
        assert uids(await anext(items)) == {one.uid}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(action="watch_gone"),
        Fault(action="watch_empty"),
        Fault(method="GET", path="/jobs$", action="answer", status=410, after=1),
    ],
    ids=["410 inside a 200", "200 with an empty body", "410"],
)
async def test_after_the_end_of_history_everything_is_listed_again(cluster, api, server, fault):
    """What was created and what was deleted while the watch was away shows on the new list."""
    going, pauses = await create(cluster, 1), Pauses()

    async def meanwhile() -> None:
        pauses.meanwhile = None
        await cluster.delete(NAMESPACE, going.name, going.uid)
        await create(cluster, 2)

    pauses.meanwhile = meanwhile
    server.faults.add(fault)
    async with asyncio.timeout(10), aclosing(aiter(feed_of(api, sleep=pauses))) as items:
        assert uids(await anext(items)) == {going.uid}
        listed = await anext(items)
        assert isinstance(listed, Listed)
        assert [seen.job_id for seen in listed.objects] == [job_id(2)]
        three = await create(cluster, 3)
        assert (await upcoming(items, changed(job_id(3)))).object.uid == three.uid
    assert pauses.asked == [0.25]


async def test_empty_watches_are_tried_ever_more_slowly_until_one_speaks(cluster, api, server):
    pauses = Pauses()
    server.faults.add(Fault(action="watch_empty", times=9))
    async with asyncio.timeout(10), aclosing(aiter(feed_of(api, sleep=pauses))) as items:
        for _ in range(10):
            await anext(items)
        assert pauses.asked == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
        await create(cluster, 1)
        await anext(items)


async def test_a_broken_watch_goes_on_from_the_last_version(cluster, api, server):
    pauses = Pauses()
    pauses.meanwhile = lambda: create(cluster, len(pauses.asked))
    async with asyncio.timeout(10), aclosing(aiter(feed_of(api, sleep=pauses))) as items:
        await anext(items)
        server.faults.add(Fault(method="GET", path="/jobs$", action="answer", status=503, times=3))
        for number in (1, 2, 3):
            await upcoming(items, changed(job_id(number)))
    assert pauses.asked == [0.25, 0.5, 1.0]


async def test_a_watch_that_stays_broken_leads_to_a_new_list(cluster, api, server):
    pauses = Pauses()
    async with asyncio.timeout(10), aclosing(aiter(feed_of(api, sleep=pauses))) as items:
        await anext(items)
        server.faults.add(Fault(method="GET", path="/jobs$", action="answer", status=500, times=5))
        assert await anext(items) == Listed(objects=[])
    assert pauses.asked == [0.25, 0.5, 1, 2, 4]


async def test_a_silent_connection_is_left(cluster, api, server):
    pauses = Pauses()
    async with asyncio.timeout(10), aclosing(aiter(feed_of(api, sleep=pauses, silence=0.2))) as items:
        await anext(items)
        pauses.meanwhile = lambda: create(cluster, 1)
        assert (await anext(items)).object.job_id == job_id(1)


async def test_a_server_that_asks_to_slow_down_is_given_the_time(api, server):
    pauses = Pauses()
    server.faults.add(Fault(method="GET", path="/jobs$", action="answer", status=429, retry_after=12))
    async with asyncio.timeout(10), aclosing(aiter(feed_of(api, sleep=pauses))) as items:
        assert await anext(items) == Listed(objects=[])
    assert pauses.asked == [12]


async def test_not_being_allowed_does_not_end_a_feed(api, server):
    pauses = Pauses()
    server.faults.add(Fault(method="GET", path="/jobs$", action="answer", status=403, times=2))
    async with asyncio.timeout(10), aclosing(aiter(feed_of(api, sleep=pauses))) as items:
        assert await anext(items) == Listed(objects=[])
    assert pauses.asked == [0.25, 0.5]


async def test_a_job_that_ends_is_seen_with_its_times(cluster, api):
    made = await create(cluster, 1, duration="0.05")
    await cluster.release(NAMESPACE, made.name, made.uid, AT)
    async with asyncio.timeout(10):
        item = await until(job_feed(api), ended)
    seen = item.objects[0] if isinstance(item, Listed) else item.object
    assert seen.complete
    assert seen.finished_at >= seen.started_at


async def test_a_job_that_its_owner_deletes_while_it_runs_is_gone_without_an_end(cluster, api):
    made = await create(cluster, 1, hang="true")
    await cluster.release(NAMESPACE, made.name, made.uid, AT)
    async with asyncio.timeout(10), aclosing(aiter(job_feed(api))) as items:
        async for item in items:
            if isinstance(item, Changed) and item.object.ready and not item.object.deleting:
                await api.request("DELETE", JOB.path(NAMESPACE, made.name), query={"propagationPolicy": "Background"})
            if isinstance(item, Deleted):
                break
    assert item.object.uid == made.uid
    assert not item.object.complete
    assert item.object.failed_reason is None


async def test_a_pod_that_loses_its_machine_is_known_by_its_condition(cluster, api):
    made = await create(cluster, 1, hang="true", interrupt_after="0.05")
    await cluster.release(NAMESPACE, made.name, made.uid, AT)
    index = PodIndex()
    async with asyncio.timeout(10), aclosing(aiter(pod_feed(api))) as items:
        async for item in items:
            if isinstance(item, Changed):
                index.put(item.object)
            if index.disruption(made.uid):
                break
    assert "EvictionByEvictionAPI" in index.disruption(made.uid)
    assert "EvictionByEvictionAPI" in await cluster.disruption(NAMESPACE, made.name)


async def test_nodes_are_followed(api):
    async with asyncio.timeout(10), aclosing(aiter(node_feed(api))) as items:
        listed = await anext(items)
    assert {node.name: node.gpus_allocatable for node in listed.objects} == {"cpu-1": 0, "gpu-1": 4, "spot-1": 1}
    assert [node.name for node in listed.objects if node.spot] == ["spot-1"]
