"""Workers that are killed at the worst moments, three times running: the job runs once."""

import pytest

from shared.jobs.model import EventType
from shared.jobs.states import State
from tests.integration.jobs.breaking import Held, counted, gapless
from tests.integration.region import job

CREATE, COMMIT, ANSWER, RELEASE = "before the create", "between create and commit", "after the commit, unanswered", "before the release"


async def killed(region, name: str, moment: str, *, observer: bool = False) -> None:
    """Start a worker and kill it where it is about to do a thing, or has done it and waits for the answer.

    Bells stay hidden for a second only: the long poll of a worker that was killed may still have taken one.
    """
    if moment in (CREATE, RELEASE):
        method, path = ("POST", "/jobs$") if moment == CREATE else ("PATCH", "/jobs/")
        region.fault(method=method, path=path, action="delay", delay=60.0)
        worker = await (region.observer() if observer else region.dispatcher(name, visibility=1))
        await region.until_true(lambda: not region.server.faults.waiting)
        await worker.kill()
        return
    store = region.core.store
    write = store.write
    held = Held(write, when=lambda change: change.events[-1].type is EventType.COMMITTED, after=moment == ANSWER)
    store.write = held
    worker = await region.dispatcher(name, visibility=1)
    await region.until_true(held.reached.is_set)
    await worker.kill()
    store.write = write


@pytest.mark.parametrize("moment", [CREATE, COMMIT])
async def test_a_job_whose_dispatchers_die_three_times_in_the_same_place_runs_once(frail, moment):
    """Case 4: killed between claim and create, or between create and commit."""
    await frail.sweeper()
    head = await frail.submit(manifest=job(duration=0.2))

    for number in range(3):
        await killed(frail, f"d{number}", moment)
        assert frail.starts(head.id) == []
    await frail.dispatcher("last", visibility=1)
    await frail.observer()
    done = await frail.until(head.id, State.SUCCEEDED)

    events = await frail.events(head.id)
    assert (done.execution, done.fence) == (1, 4)
    assert len(frail.starts(head.id)) == 1
    assert len(await frail.objects()) == 1
    assert gapless(events)
    assert counted(events)[EventType.CLAIM_LAPSED] == 3


@pytest.mark.parametrize("moment", [ANSWER, RELEASE])
async def test_a_committed_job_whose_workers_die_three_times_before_its_release_runs_once(frail, moment):
    """Case 4: killed between commit and release, the dispatcher and then two observers that come to release it in its stead."""
    await frail.sweeper()
    head = await frail.submit(manifest=job(duration=0.2))

    await killed(frail, "d0", moment)
    assert (await frail.head(head.id)).state is State.PENDING
    for number in range(2):
        await killed(frail, f"o{number}", RELEASE, observer=True)
        assert frail.starts(head.id) == []
    await frail.observer()
    done = await frail.until(head.id, State.SUCCEEDED)

    assert (done.execution, done.fence) == (1, 1)
    assert len(frail.starts(head.id)) == 1
    assert gapless(await frail.events(head.id))


async def test_a_job_whose_workers_die_in_three_different_places_runs_once(frail):
    """Case 4: killed between claim and create, then between create and commit, then between commit and release."""
    await frail.sweeper()
    head = await frail.submit(manifest=job(duration=0.2))

    for number, moment in enumerate((CREATE, COMMIT, RELEASE)):
        await killed(frail, f"d{number}", moment)
        assert frail.starts(head.id) == []
    await frail.dispatcher("last", visibility=1)
    await frail.observer()
    done = await frail.until(head.id, State.SUCCEEDED)

    assert (done.execution, done.fence) == (1, 3)
    assert len(frail.starts(head.id)) == 1
    assert len(await frail.objects()) == 1
    assert gapless(await frail.events(head.id))


async def test_a_dispatcher_that_dies_when_it_has_claimed_leaves_a_job_that_can_still_be_cancelled(frail, short_waits):
    """Case 4, and the user has had enough: nothing has run, nothing is left on the cluster."""
    await frail.sweeper()
    head = await frail.submit()
    await killed(frail, "d0", COMMIT)

    await frail.cancel(head.id)
    await frail.dispatcher("d1", visibility=1)
    await frail.observer()
    await frail.until(head.id, State.CANCELLED)

    assert frail.starts(head.id) == []
    assert await frail.objects() == []
