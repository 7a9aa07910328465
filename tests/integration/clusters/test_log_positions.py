"""Where the reading of a Job's logs begins: after a position, at a tail, with the newest pods; no line is lost or doubled."""

import asyncio

import pytest

from shared.clusters import log_following
from shared.clusters.errors import TakenError
from shared.clusters.kinds import JOB
from shared.clusters.log_following import LogFollower
from shared.clusters.log_items import Choice
from shared.clusters.log_positions import decode
from tests.integration.clusters.builders import NAMESPACE
from tests.integration.clusters.log_readers import JOBS, Shown, a_job, create, follow, numbered


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
