"""Deliveries that are held say behind which earlier event of their job they are, wherever they are shown."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from shared.ids import RandomIds
from shared.jobs.change import Moment
from shared.jobs.model import Event, EventType
from shared.jobs.states import State
from shared.store.deliveries import Deliveries
from shared.store.keys import Layout
from shared.webhooks import deliveries as changes
from shared.webhooks.ports import Answer
from shared.webhooks.urls import UrlRules
from tests.integration.api.conftest import serving
from tests.integration.webhooks.test_administration import WEBHOOKS, create
from workers.api.core import build
from workers.api.fleet.delivery_reasons import FREE


@pytest.fixture
async def core(aws, shared_settings):
    return dataclasses.replace(await build(shared_settings, aws), webhook_urls=UrlRules(local=True))


@pytest.fixture
async def client(core):
    async with serving(core) as found:
        yield found


@dataclasses.dataclass
class Told:
    """The deliveries of one job to one webhook."""

    core: object
    webhook: object
    job_id: str

    @property
    def deliveries(self):
        return Deliveries(self.core.table, Layout())

    def moment(self):
        return Moment(now=self.core.clock.now(), stamp=RandomIds().nonce())

    async def add(self, number, *, held=False, failed=False):
        """The delivery of an event, which is under way unless it is said to be held or to have failed."""
        at = self.core.clock.now()
        event = Event(
            job_id=self.job_id,
            number=number,
            type=EventType.SUCCEEDED,
            at=at,
            execution=1,
            state=State.SUCCEEDED,
            namespace="gco-jobs",
        )
        made = await self.deliveries.create(changes.made(event, "job.completed", self.webhook, "gco-jobs", self.moment()))
        if failed:
            made = await self.deliveries.write(made, changes.attempted(made, Answer(status=404), self.moment()))
        return await self.hold(made) if held else made

    async def hold(self, delivery):
        return await self.deliveries.write(delivery, changes.held(delivery, self.core.clock.now() + timedelta(seconds=30), self.moment()))


@pytest.fixture
async def job(client, core):
    webhook_id = await create(client)
    return Told(core, (await core.webhooks.many([webhook_id]))[webhook_id], RandomIds().job())


async def listed(client, job, **params):
    """Numbers, states and reasons of all pages."""
    found, cursor = [], None
    while True:
        asked = params | ({"cursor": cursor} if cursor else {})
        page = (await client.get(f"{WEBHOOKS}/{job.webhook.id}/deliveries", params=asked)).json()
        found += [(one["number"], one["state"], one["reason"]) for one in page["deliveries"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def path(job, number):
    return f"{WEBHOOKS}/{job.webhook.id}/deliveries/{job.job_id}/{number}"


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_all_that_is_held_is_behind_the_one_that_is_under_way_however_pages_are_cut(client, job, limit):
    await job.add(1)
    for number in (4, 5):
        await job.add(number, held=True)
    other = dataclasses.replace(job, job_id=RandomIds().job())
    await other.add(2)

    behind = f"behind {job.job_id}#1"
    expected = {(1, "pending", None), (2, "pending", None), (4, "held", behind), (5, "held", behind)}
    found = await listed(client, job, limit=limit)
    assert (set(found), len(found)) == (expected, 4)
    assert set(await listed(client, job, limit=limit, state="held")) == {(4, "held", behind), (5, "held", behind)}


async def test_one_that_is_held_says_it_too_and_not_what_came_of_its_last_attempt(client, job):
    await job.add(1)
    second = await job.add(4)
    second = await job.deliveries.write(second, changes.attempted(second, Answer(status=500), job.moment()))
    assert (await client.get(path(job, 4))).json()["reason"] == "answered 500"
    await job.hold(second)
    found = (await client.get(path(job, 4))).json()
    assert (found["state"], found["reason"], found["last_attempt"]["status"]) == ("held", f"behind {job.job_id}#1", 500)


async def test_one_that_is_sent_again_behind_another_says_so(client, job):
    await job.add(1)
    await job.add(4, failed=True)
    again = (await client.post(f"{path(job, 4)}/redeliver")).json()
    assert (again["state"], again["reason"]) == ("held", f"behind {job.job_id}#1")


async def test_what_came_to_its_end_holds_nothing_and_another_webhooks_delivery_does_not(client, job):
    await job.add(1, failed=True)
    await job.add(4, held=True)
    webhook_id = await create(client)
    other = dataclasses.replace(job, webhook=(await job.core.webhooks.many([webhook_id]))[webhook_id])
    await other.add(1)
    assert (4, "held", FREE) in await listed(client, job, limit=100)
