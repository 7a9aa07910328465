"""What a kubelet may give that no simulation gives on demand, and which pods and containers are meant."""

import asyncio

import pytest

from shared.clusters.api import KubernetesApi
from shared.clusters.container_following import Beginning, ContainerFollowing, Rooms
from shared.clusters.container_states import ContainerState, container_states, default_container, why_pending
from shared.clusters.followed_pods import FollowedPod, PodNews
from shared.clusters.log_items import Lines, Notice, Source
from shared.clusters.log_reading import last_bytes, newest_pods
from shared.errors import NotFoundError
from tests.unit.clusters.scripted import ScriptedAnswer, ScriptedTransport, document

RUNNING = ContainerState(started=True, running=True)
ENDED = ContainerState(started=True, ended=True)


def stamped(second, text, end="\n"):
    return f"2026-01-02T03:04:{second:02}.000000000Z {text}{end}".encode()


def news(state):
    return PodNews(name="pod-1", uid="u", made=1, ended=state.ended, containers={"main": state})


class Play:
    """Follows a container over scripted answers; it has ended when the last of them is asked for."""

    def __init__(self, *answers):
        self.transport = ScriptedTransport(*answers)
        self.pod = FollowedPod(news=news(RUNNING if len(answers) > 1 else ENDED))
        self.lines, self.notices = [], []
        self._count = len(answers)

    async def run(self):
        rooms = Rooms(following=asyncio.Semaphore(1), reading=asyncio.Semaphore(1))
        send = self.transport.send

        async def counted(*args, **parts):
            answer = await send(*args, **parts)
            if len(self.transport.queries) == self._count - 1:
                self.pod.update(news(ENDED))
            return answer

        self.transport.send = counted
        following = ContainerFollowing(
            KubernetesApi(self.transport),
            "ml",
            Source(pod="pod-1", container="main"),
            self.pod,
            self._put,
            beginning=Beginning(),
            rooms=rooms,
        )
        async with asyncio.timeout(5):
            await following.run()
        return self

    async def _put(self, item):
        match item:
            case Lines():
                self.lines += [line.text for line in item.lines]
            case Notice():
                self.notices.append((item.message, item.loss))


async def test_half_a_line_is_none_until_its_rest_has_come():
    first = ScriptedAnswer(stamped(1, "one"), stamped(2, "tw", end=""))
    rest = ScriptedAnswer(stamped(1, "one") + stamped(2, "two"))

    play = await Play(first, rest).run()

    assert play.lines == ["one", "two"]


async def test_the_last_line_of_a_container_that_has_ended_needs_no_end():
    first = ScriptedAnswer(stamped(1, "one") + stamped(2, "two", end=""))
    rest = ScriptedAnswer(stamped(1, "one") + stamped(2, "two", end=""))

    play = await Play(first, rest).run()

    assert play.lines == ["one", "two"]


async def test_a_reading_that_is_given_up_has_shown_nothing_that_its_reader_did_not_take(monkeypatch):
    """A stream stands, its container has ended, and the reader is slow: what he hasn't taken is read again."""
    monkeypatch.setattr("shared.clusters.container_following.STANDING_SECONDS", 0)
    lines = b"".join(stamped(second, f"line {second}") for second in range(10))
    none_before = document({"kind": "Status", "code": 400, "message": "previous terminated container not found"}, status=400)
    play = Play(ScriptedAnswer(lines), ScriptedAnswer(lines), none_before)
    taken = play._put
    slow = asyncio.Event()

    async def put(item):
        if not slow.is_set():
            slow.set()
            play.pod.update(news(ENDED))
            await asyncio.Event().wait()
        await taken(item)

    play._put = put

    assert (await play.run()).lines == [f"line {second}" for second in range(10)]


async def test_a_run_that_begins_while_the_one_before_is_read_is_not_overlooked():
    before, after = ScriptedAnswer(stamped(1, "one")), ScriptedAnswer(stamped(2, "two"))
    play = Play(before, after, ScriptedAnswer(stamped(1, "one")), ScriptedAnswer(stamped(2, "two")))
    play.pod.update(news(ContainerState(started=True)))
    taken = play._put

    async def put(item):
        if play.lines == []:
            play.pod.update(news(ContainerState(started=True, running=True, restarts=1)))
        await taken(item)

    play._put = put

    assert (await play.run()).lines == ["one", "two"]


async def test_the_kubelets_own_words_are_told_once_and_are_no_lines():
    words = b"unable to retrieve container logs for containerd://1\n"

    play = await Play(ScriptedAnswer(words), ScriptedAnswer(words)).run()

    assert (play.lines, play.notices) == ([], [("unable to retrieve container logs for containerd://1", False)])


async def test_a_reading_begins_a_second_before_the_last_line():
    play = await Play(ScriptedAnswer(stamped(7, "one")), ScriptedAnswer(stamped(7, "one"))).run()

    first, second = play.transport.queries
    assert "sinceTime" not in first
    assert (first["follow"], second["sinceTime"]) == ("true", "2026-01-02T03:04:06Z")
    assert "follow" not in second


async def test_a_log_that_is_refused_is_told_and_asked_for_no_more_when_its_container_has_ended():
    refused = document({"kind": "Status", "code": 403, "message": "pods/log is forbidden"}, status=403)

    play = await Play(refused).run()

    assert len(play.notices) == 1
    assert "pods/log is forbidden" in play.notices[0][0]


def listed(*pods):
    items = [
        {"metadata": {"name": name, "creationTimestamp": made, "ownerReferences": [{"uid": uid, "controller": True}]}}
        for name, made, uid in pods
    ]
    return document({"metadata": {"resourceVersion": "1"}, "items": items})


JOB = {"metadata": {"namespace": "ml", "name": "train", "uid": "job"}}


async def test_the_newest_pods_are_the_jobs_own():
    answer = listed(("a", "2026-01-03T00:00:00Z", "job"), ("b", "2026-01-01T00:00:00Z", "job"), ("c", "2026-01-02T00:00:00Z", "job"))
    pods, more = await newest_pods(KubernetesApi(ScriptedTransport(answer)), JOB, count=2)

    assert ([pod["metadata"]["name"] for pod in pods], more) == (["c", "a"], True)
    with pytest.raises(NotFoundError):
        await newest_pods(KubernetesApi(ScriptedTransport(listed(("x", "2026-01-03T00:00:00Z", "other")))), JOB)


@pytest.mark.parametrize(
    ("chunks", "limit", "kept"),
    [
        ([b"one\ntwo\n"], 8, (b"one\ntwo\n", False)),
        ([b"one\n", b"two\n"], 7, (b"two\n", True)),
        ([b"one\ntwo\n"], 4, (b"two\n", True)),
        ([b"abcdefgh"], 3, (b"fgh", True)),
        ([], 3, (b"", False)),
    ],
)
async def test_of_a_long_log_the_last_whole_lines_are_kept(chunks, limit, kept):
    async def flowing():
        for chunk in chunks:
            yield chunk

    assert await last_bytes(flowing(), limit) == kept


def pod(*, policy="Never", phase="Running", annotations=None, init=(), **states):
    def status(state):
        return {"name": "x", "restartCount": 0, "state": {}, "lastState": {}} | state

    return {
        "metadata": {"name": "p", "annotations": annotations or {}},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": name} for name in states if name not in {one["name"] for one in init}],
            "initContainers": list(init),
        },
        "status": {"phase": phase, "containerStatuses": [status(state) | {"name": name} for name, state in states.items()]},
    }


DONE = {"state": {"terminated": {"exitCode": 0}}}
BAD = {"state": {"terminated": {"exitCode": 1}}}
WAITS = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}, "restartCount": 2}


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (pod(main={}), ContainerState()),
        (pod(main={"state": {"running": {}}}), RUNNING),
        (pod(main=DONE), ENDED),
        (pod(main=BAD), ENDED),
        (pod(policy="OnFailure", main=DONE), ENDED),
        (pod(policy="OnFailure", main=BAD), ContainerState(started=True)),
        (pod(policy="Always", main=DONE), ContainerState(started=True)),
        (pod(policy="OnFailure", main=WAITS), ContainerState(started=True, restarts=2, waits="CrashLoopBackOff")),
        (pod(phase="Failed", main={"state": {"running": {}}}), ENDED),
        (pod(phase="Failed", main={}), ContainerState(ended=True)),
        (pod(policy="Always", init=[{"name": "main"}], main=DONE), ENDED),
        (pod(policy="Never", init=[{"name": "main", "restartPolicy": "Always"}], main=DONE), ContainerState(started=True)),
    ],
)
def test_a_container_has_ended_when_it_will_never_run_again(found, state):
    assert container_states(found)["main"] == state


def test_the_default_container_is_that_of_the_annotation_if_there_is_one():
    key = "kubectl.kubernetes.io/default-container"
    assert default_container(pod(a={}, b={})) == "a"
    assert default_container(pod(annotations={key: "b"}, a={}, b={})) == "b"
    assert default_container(pod(annotations={key: "x"}, a={}, b={})) == "a"


def test_why_a_pod_waits_is_told_in_the_words_of_who_knows():
    placeless = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    placed = {"type": "PodScheduled", "status": "True"}
    pulling = pod(main={"state": {"waiting": {"reason": "ErrImagePull", "message": "denied"}}})

    assert why_pending({"status": {"conditions": [placeless]}}) == "Unschedulable: 0/3 nodes"
    assert why_pending(pulling) == "container main: ErrImagePull: denied"
    assert why_pending({"status": {"conditions": [placed]}}) == "its containers are being created"
    assert why_pending({"status": {}}) == "it waits for the scheduler"
    preparing = {"initContainerStatuses": [{"name": "prepare", "state": {"running": {}}}]}
    assert why_pending({"status": preparing}) == "init container prepare runs"
