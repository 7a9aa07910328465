"""Logs are kept when an execution ends, cheaply and without ever standing in its way."""

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace

import pytest

from shared.clusters.feeds import job_feed, pod_feed
from shared.clusters.kept_logs import index_key, read_kept
from shared.clusters.kinds import POD
from shared.clusters.log_lines import dated
from shared.clusters.logs import ClusterLogs
from shared.clusters.pods import ContainerView, PodIndex
from tests.integration.clusters.builders import AT, JOB_ID, NAMESPACE, MemoryObjects, bundle, ended, head, until
from workers.local.cluster import Fault

LINES = "loading\nepoch 1\nepoch 2\n"


@pytest.fixture
def objects():
    return MemoryObjects()


async def run(cluster, api, **plan):
    made = await cluster.create(bundle(**{"duration": "0.05", "logs": LINES, **plan}), JOB_ID, 1, "abc")
    await cluster.release(NAMESPACE, made.name, made.uid, AT)
    async with asyncio.timeout(10):
        await until(job_feed(api), ended)
    return made


def shown(objects, kept) -> str:
    """What a kept log says, each line of which stands behind its time."""
    assert kept.timestamps
    lines, others = dated(objects.objects[kept.key].splitlines())
    assert others == []
    return "".join(f"{line.text}\n" for line in lines)


async def pods_of(api) -> PodIndex:
    index = PodIndex()
    async with aclosing(aiter(pod_feed(api))) as items:
        index.replace((await anext(items)).objects)
    return index


async def test_the_common_job_costs_one_request_where_its_pod_is_known(cluster, api, counting, objects):
    made = await run(cluster, api)
    logs = ClusterLogs(api, objects, pods=await pods_of(api))
    counting.requests.clear()
    assert await logs.keep(head(made)) == "logs kept: 1 container"
    assert counting.requests == ["GET log"]
    index = await read_kept(objects, JOB_ID, 1)
    (kept,) = index.containers
    assert shown(objects, kept) == LINES
    assert kept.key == f"logs/{JOB_ID}/1/{kept.pod}/main.log"
    assert (kept.bytes, kept.truncated, kept.exit_code) == (len(objects.objects[kept.key]), False, 0)


async def test_pods_that_are_not_known_are_listed(cluster, api, counting, objects):
    made = await run(cluster, api, exit_code="3")
    counting.requests.clear()
    note = await ClusterLogs(api, objects).keep(head(made))
    (kept,) = (await read_kept(objects, JOB_ID, 1)).containers
    assert note == f"container main of pod {kept.pod} exited with 3; logs kept: 1 container"
    assert counting.requests == ["GET pods", "GET log"]
    assert kept.exit_code == 3


async def test_a_feed_of_pods_that_is_behind_is_not_believed(cluster, api, counting, objects):
    made = await run(cluster, api)
    index = await pods_of(api)
    (ended_pod,) = index.of(made.uid)
    behind = PodIndex()
    behind.put(replace(ended_pod, phase="Pending", containers=(ContainerView(name="main", started=False),)))
    counting.requests.clear()
    assert await ClusterLogs(api, objects, pods=behind).keep(head(made)) == "logs kept: 1 container"
    assert counting.requests == ["GET pods", "GET log"]


async def test_a_feed_of_pods_is_waited_for(cluster, api, counting, objects):
    made = await run(cluster, api)
    index = await pods_of(api)
    (ended_pod,) = index.of(made.uid)
    late = PodIndex()
    asyncio.get_running_loop().call_later(0.1, late.put, ended_pod)
    counting.requests.clear()
    assert await ClusterLogs(api, objects, pods=late).keep(head(made)) == "logs kept: 1 container"
    assert counting.requests == ["GET log"]


async def test_of_a_long_log_the_end_is_kept(cluster, api, objects):
    made = await run(cluster, api)
    await ClusterLogs(api, objects, limit=50).keep(head(made))
    (kept,) = (await read_kept(objects, JOB_ID, 1)).containers
    assert shown(objects, kept) == "epoch 2\n"
    assert kept.truncated


async def test_a_job_without_pods_has_no_logs(cluster, api, objects):
    made = await cluster.create(bundle(), JOB_ID, 1, "abc")
    assert await ClusterLogs(api, objects).keep(head(made)) == "logs unavailable: no pods are left"
    assert objects.objects == {}


async def test_a_cluster_that_does_not_answer_is_no_error(cluster, api, server, objects):
    made = await run(cluster, api)
    server.faults.add(Fault(path="/log$", action="answer", status=500))
    assert (await ClusterLogs(api, objects).keep(head(made))).startswith("logs unavailable: ")
    assert await read_kept(objects, JOB_ID, 1) is None


async def test_a_cluster_that_hangs_takes_a_bounded_time(cluster, api, server, objects):
    made = await run(cluster, api)
    server.faults.add(Fault(path="/log$", action="delay", delay=60))
    assert await ClusterLogs(api, objects, seconds=1.6).keep(head(made)) == "logs unavailable: no time was left"


async def test_a_bucket_that_fails_is_no_error(cluster, api, objects, monkeypatch):
    async def broken(*_, **__):
        raise RuntimeError("no bucket")

    made = await run(cluster, api)
    monkeypatch.setattr(objects, "put", broken)
    assert await ClusterLogs(api, objects).keep(head(made)) == "logs unavailable: no bucket"


async def test_what_an_earlier_try_kept_stays_in_the_index(cluster, api, objects):
    made = await run(cluster, api, exit_code="1,0", backoff_limit=1)
    pods = await pods_of(api)
    first, second = pods.of(made.uid)
    await ClusterLogs(api, objects, pods=pods).keep(head(made))
    await api.request("DELETE", POD.path(NAMESPACE, first.name))
    assert "logs kept: 1 container, 1 lost" in await ClusterLogs(api, objects, pods=pods).keep(head(made))
    index = await read_kept(objects, JOB_ID, 1)
    assert {one.pod for one in index.containers} == {first.name, second.name}
    assert index.lost == ()


async def test_an_index_of_another_release_is_read(objects):
    """Old ones say nothing of times; newer ones may say more than we know."""
    one = {"pod": "p", "container": "main", "key": "k", "bytes": 1, "truncated": False, "exit_code": 0}
    document = {"job_id": JOB_ID, "execution": 1, "kept_at": AT.isoformat(), "containers": [one, one | {"more": 1}], "lost": []}
    await objects.put(index_key(JOB_ID, 1), json.dumps(document).encode())

    index = await read_kept(objects, JOB_ID, 1)

    assert [kept.timestamps for kept in index.containers] == [False, False]
