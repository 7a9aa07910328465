"""What owners do with their webhooks through the fleet's own door."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from standardwebhooks import Webhook as StandardWebhook

from shared.errors import UnavailableError
from shared.identity.callers import Caller, Right
from shared.ids import RandomIds
from shared.jobs.change import Moment
from shared.jobs.model import Event, EventType
from shared.jobs.states import State
from shared.secrets import Secrets
from shared.store.deliveries import Deliveries
from shared.store.keys import Layout
from shared.webhooks import deliveries as changes
from shared.webhooks.ports import Answer
from shared.webhooks.rotation import SecretRing
from shared.webhooks.urls import UrlRules
from tests.integration.api.conftest import serving, serving_caller
from tests.unit.webhooks.receivers import answering, receiving
from workers.api.core import build

GCO = "/api/v1/webhooks"
WEBHOOKS = "/fleet/v1/webhooks"
SECRET = "correct horse battery staple"
NOBODY = "018f5b7e-0000-7000-8000-000000000000"


@pytest.fixture
async def core(aws, shared_settings):
    """A core of the shared fleet, which may send to this machine."""
    return dataclasses.replace(
        await build(shared_settings, aws), webhook_urls=UrlRules(local=True, resolve=lambda host, port: ["127.0.0.1"])
    )


@pytest.fixture
async def client(core):
    async with serving(core) as found:
        yield found


@pytest.fixture
def deliveries(core):
    return Deliveries(core.table, Layout())


async def create(client, url="http://127.0.0.1:9/hook", **fields):
    answer = await client.post(GCO, json={"url": url, "events": ["job.completed"], "namespace": "gco-jobs"} | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()["webhook"]["id"]


async def post(client: httpx.AsyncClient, webhook_id: str, verb: str, **body):
    return (
        await client.post(f"{WEBHOOKS}/{webhook_id}/{verb}", json=body)
        if body or verb in WITH_BODY
        else await client.post(f"{WEBHOOKS}/{webhook_id}/{verb}")
    )


WITH_BODY = {"disable", "rotate", "redeliver"}


async def shown(client, webhook_id):
    answer = await client.get(f"{WEBHOOKS}/{webhook_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def failed_delivery(core, deliveries, webhook_id, *, at=None, state="failed", number=3):
    """A delivery of a job of its own."""
    webhook = (await core.webhooks.many([webhook_id]))[webhook_id]
    moment = Moment(now=core.clock.now(), stamp=RandomIds().nonce())
    event = Event(
        job_id=RandomIds().job(),
        number=number,
        type=EventType.SUCCEEDED,
        at=at or moment.now,
        execution=1,
        state=State.SUCCEEDED,
        namespace="gco-jobs",
    )
    delivery = await deliveries.create(changes.made(event, "job.completed", webhook, "gco-jobs", moment))
    answers = {"failed": Answer(status=404, text="no such page", latency=12), "delivered": Answer(status=200, latency=3)}
    if state in answers:
        delivery = await deliveries.write(
            delivery, changes.attempted(delivery, answers[state], Moment(now=core.clock.now(), stamp="x" + moment.stamp))
        )
    return delivery


async def test_a_new_webhook_is_shown_as_it_is(client):
    webhook_id = await create(client, secret=SECRET)
    found = await shown(client, webhook_id)

    assert (found["id"], found["state"], found["signed"], found["history"]) == (webhook_id, "enabled", True, [])
    assert found["health"] == {
        "failures": 0,
        "failing_since": None,
        "strikes": 0,
        "paused_until": None,
        "last_failure_at": None,
        "last_failure": None,
        "last_success_at": None,
    }
    assert SECRET not in str(found)
    listed = (await client.get(WEBHOOKS, params={"namespace": "gco-jobs"})).json()["webhooks"]
    assert {name: found[name] for name in listed[0]} == listed[0]


async def test_disabled_and_enabled_with_who_and_why(client):
    webhook_id = await create(client)
    disabled = (await post(client, webhook_id, "disable", reason="maintenance")).json()
    again = (await post(client, webhook_id, "disable", reason="another")).json()
    enabled = (await post(client, webhook_id, "enable")).json()
    await post(client, webhook_id, "enable")

    assert (disabled["state"], disabled["disabled_reason"]) == ("disabled", "maintenance")
    assert again["disabled_reason"] == "maintenance"
    assert (enabled["state"], enabled["disabled_at"], enabled["disabled_reason"]) == ("enabled", None, None)
    assert [(one["change"], one["reason"], one["by"]) for one in (await shown(client, webhook_id))["history"]] == [
        ("disabled", "maintenance", "local"),
        ("enabled", None, "local"),
    ]


async def test_a_test_is_signed_and_its_answer_told(client):
    async with receiving(answering("202 Accepted", b"thanks")) as receiver:
        webhook_id = await create(client, f"http://hooks.example:{receiver.port}/x", secret=SECRET)
        await post(client, webhook_id, "disable")
        answer = (await post(client, webhook_id, "test")).json()

    [received] = receiver.received
    document = StandardWebhook(SECRET.encode()).verify(received.body, received.headers)
    assert (answer["delivered"], answer["status"], answer["failure"], answer["text"]) == (True, 202, None, "thanks")
    assert answer["message_id"] == received.headers["webhook-id"] == document["id"]
    assert document["event"] == received.headers["x-gco-event"] == "webhook.test"
    assert document["job"].keys() >= {"name", "namespace", "uid", "labels", "status", "start_time", "completion_time", "active"}


async def test_a_test_that_fails_tells_why(client):
    async with receiving(answering("500 Internal Server Error", b"oops")) as receiver:
        broken = await post(client, await create(client, f"http://hooks.example:{receiver.port}/x"), "test")
    nobody = await post(client, await create(client, f"http://hooks.example:{receiver.port}/x"), "test")

    assert (broken.status_code, broken.json()["delivered"], broken.json()["status"], broken.json()["text"]) == (200, False, 500, "oops")
    assert (nobody.json()["delivered"], nobody.json()["status"], nobody.json()["failure"]) == (False, None, "connection")


async def test_a_rotation_shows_the_new_secret_once_and_signs_with_both(client, core, capfd):
    async with receiving(answering()) as receiver:
        webhook_id = await create(client, f"http://hooks.example:{receiver.port}/x", secret=SECRET)
        rotated = (await post(client, webhook_id, "rotate")).json()
        await post(client, webhook_id, "test")
    listed = (await client.get(WEBHOOKS)).text + str(await shown(client, webhook_id))

    new = rotated["secret"]
    [received] = receiver.received
    for key in (new, SECRET.encode()):
        StandardWebhook(key).verify(received.body, received.headers)
    assert datetime.fromisoformat(rotated["overlap_until"]) - datetime.fromisoformat(rotated["webhook"]["rotated_at"]) == timedelta(days=1)
    items = str((await core.table._client.scan(TableName=core.table.name))["Items"])
    output = capfd.readouterr()
    assert new not in listed + items + output.out + output.err
    assert (await shown(client, webhook_id))["history"][-1]["change"] == "rotated"


async def test_a_rotation_without_an_overlap_ends_the_old_secret(client, core):
    webhook_id = await create(client, secret=SECRET)
    answer = (await post(client, webhook_id, "rotate", overlap_seconds=0, secret="another horse battery")).json()

    assert (answer["secret"], answer["overlap_until"]) == (None, None)
    assert SecretRing.read(await core.secrets.get(f"webhooks/{webhook_id}")).signing(core.clock.now()) == ("another horse battery",)


async def test_a_webhook_without_a_secret_gets_its_first(client, core):
    webhook_id = await create(client)
    answer = (await post(client, webhook_id, "rotate")).json()

    assert (answer["webhook"]["signed"], answer["overlap_until"]) == (True, None)
    assert SecretRing.read(await core.secrets.get(f"webhooks/{webhook_id}")).signing(core.clock.now()) == (answer["secret"],)
    assert (await client.delete(f"{GCO}/{webhook_id}")).status_code == 200
    assert await core.secrets.get(f"webhooks/{webhook_id}") is None


class Losing(Secrets):
    """Secrets Manager, whose answer to a new value is lost."""

    async def put(self, name, value, *, description):
        await super().put(name, value, description=description)
        raise UnavailableError("no answer")


async def test_a_rotation_whose_answer_was_lost_is_made_again_and_takes_nothing_from_the_receiver(client, core, aws):
    webhook_id = await create(client, secret=SECRET)
    losing = dataclasses.replace(core, secrets=Losing(aws.secretsmanager, prefix=core.settings.table))
    async with serving(losing) as other:
        assert (await post(other, webhook_id, "rotate")).status_code == 503
    new = (await post(client, webhook_id, "rotate")).json()["secret"]

    signing = SecretRing.read(await core.secrets.get(f"webhooks/{webhook_id}")).signing(core.clock.now())
    assert (signing[0], signing[-1], len(signing)) == (new, SECRET, 3)


async def test_of_two_who_rotate_at_once_nobody_is_told_a_secret_that_does_not_sign(client, core):
    webhook_id = await create(client, secret=SECRET)
    found = await asyncio.gather(*(post(client, webhook_id, "rotate") for _ in range(5)))

    assert {one.status_code for one in found} <= {200, 409}
    signing = SecretRing.read(await core.secrets.get(f"webhooks/{webhook_id}")).signing(core.clock.now())
    assert {one.json()["secret"] for one in found if one.status_code == 200} <= set(signing)
    assert SECRET in signing


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"secret": "short"}, "/secret"),
        ({"secret": 5}, "/secret"),
        ({"secret": "whsec_hunter2hunter2"}, "/secret"),
        ({"overlap_seconds": -1}, "/overlap_seconds"),
        ({"overlap_seconds": 10**9}, "/overlap_seconds"),
        ({"surplus": 1}, "/surplus"),
    ],
)
async def test_a_bad_rotation_changes_nothing_and_shows_no_secret(client, core, body, pointer):
    webhook_id = await create(client, secret=SECRET)
    answer = await post(client, webhook_id, "rotate", **body)

    assert (answer.status_code, [one["pointer"] for one in answer.json()["detail"]]) == (422, [pointer])
    assert "hunter2" not in answer.text
    assert SecretRing.read(await core.secrets.get(f"webhooks/{webhook_id}")) == SecretRing.of(SECRET)


async def test_deliveries_are_listed_newest_first_and_by_state(client, core, deliveries):
    webhook_id = await create(client)
    now = core.clock.now()
    states = ["failed", "pending", "delivered"] * 4
    made = [
        await failed_delivery(core, deliveries, webhook_id, at=now + timedelta(seconds=number), state=state)
        for number, state in enumerate(states)
    ]

    async def listed(**params):
        found, cursor = [], None
        while True:
            page = (await client.get(f"{WEBHOOKS}/{webhook_id}/deliveries", params=params | ({"cursor": cursor} if cursor else {}))).json()
            assert len(page["deliveries"]) <= params["limit"]
            found += page["deliveries"]
            cursor = page["next_cursor"]
            if cursor is None:
                return [one["message_id"] for one in found]

    newest = [one.message_id for one in reversed(made)]
    assert await listed(limit=5) == newest
    for state in ("failed", "pending", "delivered"):
        assert await listed(limit=2, state=state) == [one.message_id for one in reversed(made) if one.state == state]


async def test_a_delivery_is_shown_with_its_attempts(client, core, deliveries):
    webhook_id = await create(client)
    delivery = await failed_delivery(core, deliveries, webhook_id)
    found = (await client.get(f"{WEBHOOKS}/{webhook_id}/deliveries/{delivery.job_id}/{delivery.number}")).json()

    assert (found["message_id"], found["state"], found["reason"], found["attempts"]) == (delivery.message_id, "failed", "answered 404", 1)
    [attempt] = found["latest_attempts"]
    assert (attempt["status"], attempt["text"], attempt["latency_ms"], attempt["failure"]) == (404, "no such page", 12, None)
    assert found["last_attempt"] == attempt


async def test_one_is_sent_again_and_not_twice(client, core, deliveries):
    webhook_id = await create(client)
    delivery = await failed_delivery(core, deliveries, webhook_id)
    path = f"{WEBHOOKS}/{webhook_id}/deliveries/{delivery.job_id}/{delivery.number}/redeliver"
    first, second = await client.post(path), await client.post(path)

    assert (first.status_code, first.json()["state"], first.json()["attempts"]) == (200, "pending", 1)
    assert (second.status_code, "still being sent" in second.json()["detail"]) == (409, True)


async def test_those_that_failed_since_a_time_are_sent_again(client, core, deliveries):
    webhook_id = await create(client)
    now = datetime.now(UTC)
    old = await failed_delivery(core, deliveries, webhook_id, at=now - timedelta(hours=2))
    new = [await failed_delivery(core, deliveries, webhook_id, at=now - timedelta(minutes=number)) for number in range(3)]
    done = await failed_delivery(core, deliveries, webhook_id, state="delivered")
    answer = await post(client, webhook_id, "redeliver", since=(now - timedelta(hours=1)).isoformat())

    assert answer.json() == {"count": 3, "more": False}
    states = {one.message_id: one.state for one in (await deliveries.page(webhook_id, limit=10)).deliveries}
    assert states == {old.message_id: "failed", done.message_id: "delivered"} | {one.message_id: "pending" for one in new}
    assert (await post(client, webhook_id, "redeliver")).json() == {"count": 1, "more": False}


async def test_many_are_sent_again_in_several_calls(client, core, deliveries, monkeypatch):
    monkeypatch.setattr("shared.webhooks.administration.AT_ONCE", 4)
    monkeypatch.setattr("shared.webhooks.administration._PAGE", 2)
    webhook_id = await create(client)
    for _ in range(7):
        await failed_delivery(core, deliveries, webhook_id)

    assert (await post(client, webhook_id, "redeliver")).json() == {"count": 4, "more": True}
    assert (await post(client, webhook_id, "redeliver")).json() == {"count": 3, "more": False}
    assert (await post(client, webhook_id, "redeliver")).json() == {"count": 0, "more": False}


async def test_nothing_is_sent_again_to_one_that_is_disabled(client, core, deliveries):
    webhook_id = await create(client)
    delivery = await failed_delivery(core, deliveries, webhook_id)
    await post(client, webhook_id, "disable", reason="maintenance")

    for answer in (
        await post(client, webhook_id, "redeliver"),
        await client.post(f"{WEBHOOKS}/{webhook_id}/deliveries/{delivery.job_id}/{delivery.number}/redeliver"),
    ):
        assert answer.status_code == 409
        assert "disabled: maintenance; enable it first" in answer.json()["detail"]


@pytest.mark.parametrize("since", ["yesterday", "2026-01-02T00:00:00", 5])
async def test_a_time_that_is_none_is_refused(client, since):
    answer = await post(client, await create(client), "redeliver", since=since)

    (problem,) = answer.json()["detail"]
    assert (answer.status_code, problem["pointer"], problem["input"]) == (422, "/since", since)


@pytest.mark.parametrize("path", ["", "/deliveries", f"/deliveries/{NOBODY}/1"])
@pytest.mark.parametrize("webhook_id", [NOBODY, "x", "%00", "a" * 100])
async def test_an_unknown_webhook_is_not_found(client, webhook_id, path):
    assert (await client.get(f"{WEBHOOKS}/{webhook_id}{path}")).status_code == 404


@pytest.mark.parametrize("path", [f"{NOBODY}/1", "x/1", f"{NOBODY}/0", f"{NOBODY}/999999999999"])
async def test_an_unknown_delivery_is_not_found(client, path):
    webhook_id = await create(client)

    assert (await client.get(f"{WEBHOOKS}/{webhook_id}/deliveries/{path}")).status_code == 404


async def test_a_deleted_webhook_is_not_found_even_while_its_secret_stands(client, core):
    webhook_id = await create(client, secret=SECRET)
    await core.webhooks.remove(await core.webhooks.entry(webhook_id))

    assert (await client.get(f"{WEBHOOKS}/{webhook_id}")).status_code == 404
    assert (await post(client, webhook_id, "rotate")).status_code == 404


async def test_a_caller_has_the_webhooks_of_his_namespaces(client, core):
    own, every = await create(client), await create(client, namespace=None)

    def caller(*namespaces, rights=(Right.READ, Right.SUBMIT)):
        return Caller(name="ann", rights=frozenset(rights), namespaces=frozenset(namespaces) or None)

    async with serving_caller(core, caller("gco-jobs")) as bound:
        assert (await bound.get(f"{WEBHOOKS}/{own}")).status_code == 200
        assert {one["namespace"] for one in (await bound.get(WEBHOOKS)).json()["webhooks"]} == {"gco-jobs"}
        assert (await bound.get(f"{WEBHOOKS}/{every}")).status_code == 403
        assert (await post(bound, every, "rotate")).status_code == 403
        assert (await bound.get(WEBHOOKS, params={"namespace": "other"})).status_code == 403
    async with serving_caller(core, caller("other")) as stranger:
        for verb in ("enable", "disable", "rotate", "test", "redeliver"):
            assert (await post(stranger, own, verb)).status_code == 403
        assert (await stranger.get(f"{WEBHOOKS}/{own}/deliveries")).status_code == 403
    async with serving_caller(core, caller(rights=[Right.READ])) as reader:
        assert (await reader.get(f"{WEBHOOKS}/{own}")).status_code == 200
        for verb in ("enable", "disable", "rotate", "test", "redeliver"):
            assert (await post(reader, own, verb)).status_code == 403
    assert (await shown(client, own))["state"] == "enabled"
