"""Following the logs of a Job over everything that can end a stream: each line comes once, whatever happens."""

import asyncio
from contextlib import aclosing

import pytest

from shared.clusters import container_following, log_following
from shared.clusters.api import KubernetesApi
from shared.clusters.errors import TakenError
from shared.clusters.kinds import JOB, POD
from shared.clusters.log_following import LogFollower
from shared.clusters.log_items import Choice, Ended, Lines, Notice, Opened
from shared.clusters.log_positions import decode
from tests.integration.clusters.builders import NAMESPACE
from workers.local.cluster import ClusterServer, Fault

PREFIX = "simulation.gpufleet.io/"
JOBS = JOB.path(NAMESPACE)


def numbered(count, name="line"):
    return [f"{name} {number}" for number in range(count)]


def a_job(*, containers=("main",), init=(), restart="Never", backoff_limit=0, parallelism=1, completions=None, **steer):
    """A Job; `steer` tells its pods what to do, `logs__side` what the container `side` writes."""
    annotations = {}
    for key, value in steer.items():
        text = "\n".join(value) if isinstance(value, list) else str(value)
        annotations[PREFIX + key.replace("__", ".").replace("_", "-")] = text
    spec = {
        "restartPolicy": restart,
        "containers": [{"name": name, "image": "busybox:1"} for name in containers],
        "initContainers": [{"name": name, "image": "busybox:1"} for name in init],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "backoffLimit": backoff_limit,
            "parallelism": parallelism,
            "completions": completions or parallelism,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


async def create(api, **options):
    return await api.request("POST", JOBS, body=a_job(**options))


class Shown:
    """What a reader has seen, with the position after each line, as it goes over the wire."""

    def __init__(self):
        self.lines: list[tuple[str, str, str]] = []
        self.positions: list[str] = []
        self.notices: list[str] = []
        self.opened: set[str] = set()
        self.end: Ended | None = None

    @property
    def texts(self):
        return [text for _, _, text in self.lines]

    def of(self, container):
        return [text for _, name, text in self.lines if name == container]

    async def read(self, follower, *, until=None):
        """Read to the end, or so many lines."""
        async with asyncio.timeout(20), aclosing(follower.items()) as items:
            async for item in items:
                match item:
                    case Lines():
                        for line in item.lines:
                            self.lines.append((item.source.pod, item.source.container, line.text))
                            self.positions.append(follower.position_after(item.source, line.at))
                            if until is not None and len(self.lines) >= until:
                                return self
                    case Notice():
                        self.notices.append(item.message)
                    case Opened():
                        self.opened.add(item.source.container)
                    case Ended():
                        self.end = item
        return self


async def follow(api, job, *, position=None, until=None, shown=None, ends_with_pod=False, **choice):
    follower = LogFollower(api, job, Choice(**choice), position and decode(position), ends_with_pod=ends_with_pod)
    return await (shown or Shown()).read(follower, until=until)


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


@pytest.mark.parametrize("action", ["stream_ends", "stream_breaks"])
async def test_a_stream_that_ends_early_is_taken_up_again(api, server, action):
    server.faults.add(Fault(path="/log$", action=action, lines=3, times=3))
    job = await create(api, duration=1.5, logs=numbered(40))

    shown = await follow(api, job)

    assert shown.texts == numbered(40)
    assert server.faults.waiting == []


async def test_a_log_that_is_rotated_is_followed_on(api):
    job = await create(api, duration=2.4, logs=numbered(24), rotate_lines=6)

    shown = await follow(api, job)

    assert shown.texts == numbered(24)


async def test_an_api_server_that_does_not_answer_for_a_while_loses_nothing(api, server):
    server.faults.add(Fault(path="/log$", action="stream_breaks", lines=5))
    server.faults.add(Fault(path="/log$", status=503, times=4))
    server.faults.add(Fault(path="/pods$", action="stream_breaks", lines=1))
    job = await create(api, duration=0.5, logs=numbered(20))

    shown = await follow(api, job)

    assert shown.texts == numbered(20)


async def test_an_api_server_that_is_started_anew_loses_nothing(api, server):
    job = await create(api, containers=("main", "side"), duration=2.0, logs__main=numbered(40, "m"), logs__side=numbered(40, "s"))
    shown = Shown()
    following = asyncio.create_task(follow(api, job, shown=shown))
    async with asyncio.timeout(10):
        while len(shown.lines) < 10:
            await asyncio.sleep(0.02)

    await server.stop()
    again = ClusterServer(server.cluster, port=server.port)
    await again.start()
    try:
        await following
    finally:
        await again.stop()

    assert (shown.of("main"), shown.of("side")) == (numbered(40, "m"), numbered(40, "s"))
    assert shown.end.outcome == "succeeded"


async def test_a_run_that_ended_while_the_connection_was_broken_is_shown_from_the_run_before(api, server):
    server.faults.add(Fault(path="/log$", action="stream_breaks", lines=2))
    server.faults.add(Fault(path="/log$", status=503, times=2))
    job = await create(api, duration=0.3, logs=numbered(10), restart="OnFailure", backoff_limit=5, exit_code="1,0")

    shown = await follow(api, job)

    assert shown.texts == numbered(10) * 2


@pytest.mark.parametrize("every", [1, 7, 19])
async def test_a_reader_goes_on_elsewhere_without_a_lost_or_doubled_line(api, every):
    job = await create(api, containers=("main", "side"), duration=1.0, logs__main=numbered(20, "m"), logs__side=numbered(20, "s"))
    shown = Shown()

    while shown.end is None:
        position = shown.positions[-1] if shown.positions else None
        shown = await follow(api, job, position=position, until=len(shown.lines) + every, shown=shown)

    assert (shown.of("main"), shown.of("side")) == (numbered(20, "m"), numbered(20, "s"))


async def test_lines_of_one_moment_are_told_apart(api):
    job = await create(api, duration=0, logs=numbered(50))
    first = await follow(api, job, until=20)

    rest = await follow(api, job, position=first.positions[-1])

    assert first.texts + rest.texts == numbered(50)


async def test_a_tail_is_of_what_stands_there_and_goes_on_from_a_position(api):
    job = await create(api, duration=1.0, logs=numbered(20))
    async with asyncio.timeout(10):
        await follow(api, job, until=10)
    first = await follow(api, job, tail=2, until=3)

    rest = await follow(api, job, tail=2, position=first.positions[-1])

    assert (first.texts + rest.texts)[-1] == "line 19"
    assert first.texts + rest.texts == numbered(20)[-len(first.texts + rest.texts) :]
    assert len(first.texts + rest.texts) < 15


async def test_a_tail_does_not_cut_what_comes_later(api):
    manifest = a_job(duration=0, logs=numbered(5))
    manifest["spec"]["suspend"] = True
    follower = LogFollower(api, await api.request("POST", JOBS, body=manifest), Choice(tail=1))
    reading = asyncio.create_task(Shown().read(follower))
    async with asyncio.timeout(10):
        while not follower.position.begun:
            await asyncio.sleep(0.01)

    body = {"spec": {"suspend": False}}
    await api.request("PATCH", JOB.path(NAMESPACE, "train"), body=body, content_type="application/merge-patch+json")

    assert (await reading).texts == numbered(5)


async def test_a_position_of_another_job_means_nothing(api):
    job = await create(api, duration=0.1, logs=numbered(5))
    shown = await follow(api, job)
    await api.request("DELETE", JOB.path(NAMESPACE, "train"), body={"propagationPolicy": "Background"})
    async with asyncio.timeout(10):
        while True:
            try:
                again = await create(api, duration=0.1, logs=numbered(5))
                break
            except TakenError:
                await asyncio.sleep(0.05)

    assert (await follow(api, again, position=shown.positions[-1])).texts == numbered(5)


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


async def test_a_pod_whose_machine_is_gone_does_not_hold_the_end(api, server, monkeypatch):
    monkeypatch.setattr(container_following, "DRAINING_SECONDS", 0.5)
    job = await create(api, duration=0.3, logs=numbered(5))
    await follow(api, job, until=5)
    server.faults.add(Fault(path="/log$", status=500, times=1000))

    shown = await follow(api, job)

    assert shown.end.outcome == "succeeded"
    assert not shown.end.whole
    assert "may be missing" in shown.notices[0]


async def test_a_pod_that_does_not_end_with_its_job_does_not_hold_the_end(api, monkeypatch):
    monkeypatch.setattr(log_following, "LINGER_SECONDS", 0.3)
    monkeypatch.setattr(container_following, "STANDING_SECONDS", 0.1)
    job = await create(api, hang="true", logs=numbered(2))
    await follow(api, job, until=2)
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "enough"}
    path = f"{JOB.path(NAMESPACE, 'train')}/status"
    following = asyncio.create_task(follow(api, job))
    await api.request("PATCH", path, body={"status": {"conditions": [condition]}}, content_type="application/merge-patch+json")

    shown = await following

    assert shown.texts == numbered(2)
    assert (shown.end.outcome, shown.end.reason, shown.end.message) == ("failed", "BackoffLimitExceeded", "enough")


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


async def test_of_very_many_pods_the_newest_are_told(api, monkeypatch):
    job = await create(api, duration=1.1, logs=["a"], completions=3)
    whole = await follow(api, job)
    monkeypatch.setattr(log_following, "FIRST_PODS", 1)

    shown = await follow(api, job)

    assert shown.lines == whole.lines[-1:]
    assert (shown.notices, shown.end.whole) == (["the logs of 2 older pods are left out"], False)


async def test_a_long_position_forgets_old_pods_and_shows_none_of_them_again(api, monkeypatch):
    monkeypatch.setattr(log_following, "FOLD_ABOVE", 2)
    monkeypatch.setattr(log_following, "FOLD_BEHIND", 1)
    job = await create(api, duration=0.4, logs=numbered(2), completions=8)
    first = await follow(api, job, until=13)
    marks = decode(first.positions[-1]).marks

    rest = await follow(api, job, position=first.positions[-1])

    assert len(marks) < 7
    assert len(first.texts + rest.texts) == 16
    assert len({(pod, text) for pod, _, text in first.lines + rest.lines}) == 16
