"""Following the logs of a Job: of all its pods and containers as they come and go, with few requests and nothing left open."""

import asyncio
from contextlib import aclosing

from shared.clusters import log_following
from shared.clusters.api import KubernetesApi
from shared.clusters.kinds import JOB, POD
from shared.clusters.log_following import LogFollower
from shared.clusters.log_items import Choice, Lines
from tests.integration.clusters.builders import NAMESPACE
from tests.integration.clusters.log_readers import Shown, create, follow, numbered
from workers.local.cluster import Fault


async def test_a_job_is_followed_to_its_end(api):
    job = await create(api, duration=0.5, logs=numbered(20))

    shown = await follow(api, job)

    assert shown.texts == numbered(20)
    assert (shown.end.outcome, shown.end.whole, shown.notices) == ("succeeded", True, [])


async def test_the_requests_of_a_follower_are_few(api, counting):
    job = await create(api, duration=1.0, logs=numbered(100))
    counting.requests.clear()

    await follow(api, job)

    # Two lists, two watches, a stream, the rest of it, and a last look at the pods.
    assert len(counting.requests) <= 8
    assert counting.requests.count("GET log") <= 3


async def test_containers_are_followed_at_the_same_time(api):
    job = await create(
        api, containers=("main", "side"), init=("prepare",), duration=0.8, logs__main=numbered(20, "m"), logs__side=numbered(20, "s")
    )

    shown = await follow(api, job)

    assert (shown.of("main"), shown.of("side")) == (numbered(20, "m"), numbered(20, "s"))
    assert shown.opened == {"prepare", "main", "side"}
    assert shown.texts.index("s 0") < shown.texts.index("m 19")
    assert shown.texts.index("m 0") < shown.texts.index("s 19")


async def test_pods_that_come_later_are_followed_too(api):
    job = await create(api, duration=0.2, logs=numbered(5), backoff_limit=3, exit_code="1,1,0")

    shown = await follow(api, job)

    assert shown.texts == numbered(5) * 3
    assert len({pod for pod, _, _ in shown.lines}) == 3
    assert shown.end.outcome == "succeeded"


async def test_a_pod_that_came_and_ended_between_two_looks_is_shown(api, server):
    server.faults.add(Fault(path="/pods$", action="delay", delay=1.0, after=1))
    job = await create(api, duration=0.05, logs=numbered(3), completions=3)

    shown = await follow(api, job)

    assert sorted(shown.texts) == sorted(numbered(3) * 3)


async def test_containers_that_are_started_again_lose_nothing(api):
    job = await create(api, duration=0.3, logs=numbered(10), restart="OnFailure", backoff_limit=5, exit_code="1,1,0")

    shown = await follow(api, job)

    assert shown.texts == numbered(10) * 3


async def test_a_job_that_is_deleted_ends_the_following(api):
    job = await create(api, hang="true", logs=numbered(2))
    following = asyncio.create_task(follow(api, job))
    await follow(api, job, until=2)

    await api.request("DELETE", JOB.path(NAMESPACE, "train"), body={"propagationPolicy": "Background"})
    shown = await following

    assert (shown.texts, shown.end.outcome) == (numbered(2), "deleted")


async def test_one_pod_alone_ends_with_it(api):
    job = await create(api, duration=0.2, logs=numbered(3), parallelism=1, completions=3)
    async with asyncio.timeout(10):
        while not (pods := (await api.request("GET", POD.path(NAMESPACE)))["items"]):
            await asyncio.sleep(0.02)

    shown = await follow(api, job, pod=pods[0]["metadata"]["name"], ends_with_pod=True)

    assert shown.texts == numbered(3)
    assert shown.end.outcome in {"running", "pending"}


async def test_a_slow_reader_holds_the_stream_of_the_cluster_back(api):
    job = await create(api, duration=0.2, logs=["x" * 1000] * 1200)
    await follow(api, job, until=1200)
    follower = LogFollower(api, job, Choice())
    async with aclosing(follower.items()) as items:
        async for item in items:
            if isinstance(item, Lines):
                break
        await asyncio.sleep(0.3)
        waiting = follower._queue.qsize()

    assert waiting <= log_following.PIECES


class Streams:
    """A transport that counts the answers that are open."""

    def __init__(self, inner):
        self._inner = inner
        self.open = 0

    async def send(self, method, path, **parts):
        answer = await self._inner.send(method, path, **parts)
        self.open += 1
        close = answer.close
        closed = False

        def note():
            nonlocal closed
            self.open -= not closed
            closed = True
            close()

        answer.close = note
        return answer

    async def close(self):
        pass


async def test_a_reader_who_leaves_leaves_nothing_open(counting):
    streams = Streams(counting)
    api = KubernetesApi(streams)
    job = await create(api, hang="true", logs=numbered(5), containers=("main", "side"), parallelism=2)

    await follow(api, job, until=8)

    assert streams.open == 0
    assert [task for task in asyncio.all_tasks() if "Follow" in task.get_coro().__qualname__] == []


async def test_more_containers_than_are_followed_at_once_wait_and_lose_nothing(api):
    job = await create(api, duration=0.4, logs=numbered(5), parallelism=4)
    follower = LogFollower(api, job, Choice(), streams=1)

    shown = await Shown().read(follower)

    assert sorted(shown.texts) == sorted(numbered(5) * 4)
    assert shown.end.whole
