"""Webhooks through the GCO door: what may be registered, what is kept where, and that nothing is left half done."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from shared.errors import UnavailableError
from shared.identity.callers import Caller, Right
from shared.secrets import Secrets
from shared.store.webhooks import Webhooks
from shared.webhooks.registration import Registration
from shared.webhooks.rotation import SecretRing
from shared.webhooks.urls import UrlRules
from tests.integration.api.conftest import serving, serving_caller

WEBHOOKS = "/api/v1/webhooks"
SECRET = "correct horse battery staple"
URL = "https://hooks.example.com/x"


def known(core, **options):
    """The core, with a name that always has a public address: no test asks the network."""
    return dataclasses.replace(core, webhook_urls=UrlRules(resolve=lambda host, port: ["93.184.215.14"], **options))


@pytest.fixture
async def client(core):
    async with serving(known(core)) as found:
        yield found


@pytest.fixture
async def shared_client(shared_core):
    async with serving(known(shared_core)) as found:
        yield found


@pytest.fixture
def secrets(fleet_resources):
    return Secrets(fleet_resources.aws.secretsmanager, prefix=fleet_resources.settings.table)


def request(**fields):
    return {"url": URL, "events": ["job.completed"], "namespace": "gco-jobs"} | fields


async def create(client, **fields):
    answer = await client.post(WEBHOOKS, json=request(**fields))
    assert answer.status_code == 201, answer.text
    return answer.json()["webhook"]


async def kept_secrets(fleet_resources):
    """The names of all secrets of this fleet."""
    prefix = f"{fleet_resources.settings.table}/"
    pages = fleet_resources.aws.secretsmanager
    found = (await pages.list_secrets(MaxResults=100))["SecretList"]
    return [one["Name"].removeprefix(prefix) for one in found if one["Name"].startswith(prefix)]


async def test_a_webhook_is_made_listed_and_deleted(client, core):
    answer = await client.post(WEBHOOKS, json=request(events=["job.failed", "job.completed", "job.failed"]))
    listed = (await client.get(WEBHOOKS)).json()
    made = answer.json()["webhook"]
    deleted = await client.delete(f"{WEBHOOKS}/{made['id']}")

    assert answer.status_code == 201
    assert answer.json().keys() == {"timestamp", "message", "webhook"}
    assert made.keys() == {"id", "url", "events", "namespace", "created_at", "created_by", "signed"}
    assert (made["url"], made["events"], made["namespace"]) == (URL, ["job.completed", "job.failed"], "gco-jobs")
    assert (made["created_by"], made["signed"]) == ("local", False)
    assert len(made["id"]) == 36
    assert (listed["count"], listed["webhooks"], listed["next_cursor"]) == (1, [made], None)
    assert (deleted.status_code, deleted.json()["message"]) == (200, f"Webhook '{made['id']}' deleted")
    assert (await client.get(WEBHOOKS)).json()["webhooks"] == []
    assert (await client.delete(f"{WEBHOOKS}/{made['id']}")).status_code == 404
    assert await core.totals.of(["webhooks"]) == {"webhooks": 0}


async def test_a_secret_is_in_secrets_manager_and_nowhere_else(client, core, secrets, fleet_resources, capfd):
    answer = await client.post(WEBHOOKS, json=request(secret=SECRET))
    made = answer.json()["webhook"]
    listed = await client.get(WEBHOOKS)
    items = (await fleet_resources.aws.dynamodb.scan(TableName=fleet_resources.settings.table))["Items"]

    assert made["signed"] is True
    assert SecretRing.read(await secrets.get(f"webhooks/{made['id']}")).signing(core.clock.now()) == (SECRET,)
    assert SECRET not in answer.text + listed.text + str(items)
    output = capfd.readouterr()
    assert SECRET not in output.out + output.err

    await client.delete(f"{WEBHOOKS}/{made['id']}")
    assert await secrets.get(f"webhooks/{made['id']}") is None
    assert await kept_secrets(fleet_resources) == []
    items = (await fleet_resources.aws.dynamodb.scan(TableName=fleet_resources.settings.table))["Items"]
    assert not [item for item in items if item["pk"]["S"].startswith("WEBHOOK")]


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "short",
        "x" * 257,
        12345678,
        True,
        ["correct horse"],
        {"a": "hunter2hunter2"},
        "whsec_hunter2hunter2",
        "whsec_aGk=",
        "hunter2\0",
        {"a": "hunter2\0"},
    ],
)
async def test_a_secret_that_breaks_a_rule_is_not_shown(shared_client, secret):
    for fields in ({}, {"surplus": 1}, {"url": "http://x"}):
        answer = await shared_client.post(WEBHOOKS, json=request(secret=secret, **fields))
        [problem] = [one for one in answer.json()["detail"] if one["pointer"].startswith("/secret")]

        assert answer.status_code == 422
        assert problem["input"] is None
        assert not secret or str(secret) not in answer.text
        assert "hunter2" not in answer.text


async def test_a_secret_of_standard_webhooks_is_taken(client):
    assert (await create(client, secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))["signed"] is True


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://hooks.example.com", "must begin with https://"),
        ("https://127.0.0.1/", "its host must have public addresses only, and 127.0.0.1 is none"),
        ("https://user:pw@hooks.example.com", "must not have a user or a password"),
        ("https://hooks.example.com:22", "its port must be 443 or 8443 (GPUFLEET_WEBHOOK_PORTS)"),
        ("nonsense", "must begin with https://"),
        ("", "must begin with https://"),
    ],
)
async def test_a_url_that_breaks_a_rule_is_a_400(shared_client, url, rule):
    answer = await shared_client.post(WEBHOOKS, json=request(url=url))

    assert (answer.status_code, answer.json()["detail"]) == (400, f"Invalid webhook URL: {rule}")


@pytest.mark.parametrize("url", ["HTTPS://HOOKS.Example.com./x", "https://hooks\u3002example\uff0ecom:443/x"])
async def test_a_url_is_kept_and_shown_in_its_normal_form(client, core, url):
    made = await create(client, url=url)

    assert made["url"] == URL
    assert (await client.get(WEBHOOKS)).json()["webhooks"] == [made]
    assert (await core.webhooks.get(await core.webhooks.entry(made["id"]))).url == URL


async def test_an_allowed_host_is_a_setting(shared_core):
    async with serving(known(shared_core, allowed_hosts=("other.example.com",))) as client:
        answer = await client.post(WEBHOOKS, json=request())

    assert answer.status_code == 400
    assert "GPUFLEET_WEBHOOK_ALLOWED_DOMAINS" in answer.json()["detail"]


async def test_an_embedded_fleet_takes_local_endpoints_and_hosts_that_it_can_not_look_up(core):
    def nothing(host, port):
        raise OSError

    settings = core.settings.model_copy(update={"webhook_local": True})
    local = dataclasses.replace(core, settings=settings, webhook_urls=UrlRules(local=True, resolve=nothing))
    async with serving(local) as client:
        for url in ("http://127.0.0.1:9999/hook", "https://hooks.example.com/x"):
            await create(client, url=url)
        assert (await client.post(WEBHOOKS, json=request(url="http://10.0.0.1"))).status_code == 400
    async with serving(dataclasses.replace(core, webhook_urls=UrlRules(resolve=nothing))) as client:
        answer = await client.post(WEBHOOKS, json=request())
        assert (answer.status_code, answer.json()["detail"]) == (400, "Invalid webhook URL: its host hooks.example.com can't be found")


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        ({"events": []}, ["/events"]),
        ({"events": ["job.done"]}, ["/events/0"]),
        ({"events": "job.failed"}, ["/events"]),
        ({"events": None}, ["/events"]),
        ({"url": 5}, ["/url"]),
        ({"url": None}, ["/url"]),
        ({"namespace": 5}, ["/namespace"]),
        ({"surplus": 1}, ["/surplus"]),
        ({"events": [], "url": "http://x", "namespace": "kube-system", "secret": "x", "more": 1}, None),
        ({"url": "http://x", "secret": "x"}, ["/secret", "/url"]),
        ({"url": "http://x", "namespace": "kube-system"}, ["/namespace", "/url"]),
    ],
)
async def test_whatever_else_is_wrong_is_told_at_once(shared_client, fields, pointers):
    answer = await shared_client.post(WEBHOOKS, json=request(**fields))

    assert answer.status_code == 422
    found = sorted(problem["pointer"] for problem in answer.json()["detail"])
    assert found == (pointers or ["/events", "/more", "/namespace", "/secret", "/url"])


async def test_a_namespace_that_is_not_allowed_is_forbidden(shared_client):
    detail = "Namespace 'kube-system' not allowed. Allowed namespaces: ['gco-jobs']"
    made = await shared_client.post(WEBHOOKS, json=request(namespace="kube-system"))
    listed = await shared_client.get(WEBHOOKS, params={"namespace": "kube-system"})

    assert (made.status_code, made.json()["detail"]) == (403, detail)
    assert (listed.status_code, listed.json()["detail"]) == (403, detail)


@pytest.mark.parametrize("webhook_id", ["x", "a" * 100, "%00", "é", "018f5b7e-0000-7000-8000-000000000000"])
async def test_an_unknown_webhook_is_not_found(shared_client, webhook_id):
    assert (await shared_client.delete(f"{WEBHOOKS}/{webhook_id}")).status_code == 404


async def test_lists_are_newest_first_and_page_on(client):
    made = [(await create(client, namespace=namespace))["id"] for namespace in ["gco-jobs", None] * 3]

    async def listed(**params):
        first = (await client.get(WEBHOOKS, params=params | {"limit": 2})).json()
        rest = (await client.get(WEBHOOKS, params=params | {"limit": 4, "cursor": first["next_cursor"]})).json()
        assert rest["next_cursor"] is None
        return [one["id"] for one in first["webhooks"] + rest["webhooks"]]

    assert await listed() == made[::-1]
    assert await listed(namespace="gco-jobs") == made[4::-2]
    other = (await client.get(WEBHOOKS, params={"limit": 2})).json()["next_cursor"]
    assert (await client.get(WEBHOOKS, params={"namespace": "gco-jobs", "cursor": other})).status_code == 422


async def test_who_delivers_finds_those_that_are_concerned(client, core):
    every = await create(client, events=["job.failed", "job.started"], namespace=None)
    own = await create(client, events=["job.failed"])

    assert {one.id for one in await core.webhooks.concerned("gco-jobs")} == {every["id"], own["id"]}
    assert [one.id for one in await core.webhooks.concerned("other")] == [every["id"]]


async def test_who_delivers_reads_webhooks_by_id(client, core):
    kept, gone = await create(client), await create(client, namespace=None)
    await client.delete(f"{WEBHOOKS}/{gone['id']}")

    assert list(await core.webhooks.many([kept["id"], gone["id"], "unknown"])) == [kept["id"]]
    assert await core.webhooks.many([]) == {}


async def test_a_namespace_has_only_so_many(client, monkeypatch, fleet_resources):
    monkeypatch.setattr("shared.store.webhooks.MAX_PER_NAMESPACE", 3)
    answers = await asyncio.gather(*(client.post(WEBHOOKS, json=request(secret=SECRET)) for _ in range(5)))

    assert sorted(answer.status_code for answer in answers) == [201, 201, 201, 409, 409]
    assert "Namespace 'gco-jobs' has 3 webhooks" in next(answer.json()["detail"] for answer in answers if answer.status_code == 409)
    assert len(await kept_secrets(fleet_resources)) == 3
    assert (await client.post(WEBHOOKS, json=request(namespace=None))).status_code == 201
    await client.delete(f"{WEBHOOKS}/{next(answer.json()['webhook']['id'] for answer in answers if answer.status_code == 201)}")
    assert (await client.post(WEBHOOKS, json=request())).status_code == 201


class Failing(Webhooks):
    """A table whose answer to a new webhook is lost, before or after it is written."""

    def __init__(self, table, *, written):
        super().__init__(table)
        self._written = written

    async def create(self, webhook):
        if self._written:
            await super().create(webhook)
        raise UnavailableError("no answer")


@pytest.mark.parametrize("written", [True, False])
async def test_what_becomes_of_the_secret_when_the_answer_is_lost(core, secrets, fleet_resources, written):
    webhooks = Failing(core.table, written=written)
    async with serving(known(dataclasses.replace(core, registration=Registration(webhooks, secrets)))) as client:
        answer = await client.post(WEBHOOKS, json=request(secret=SECRET))

    assert answer.status_code == (201 if written else 503)
    assert len(await kept_secrets(fleet_resources)) == int(written)
    assert len((await core.webhooks.page(limit=10)).webhooks) == int(written)


class Forgetful(Secrets):
    """Secrets that can't be deleted now."""

    async def delete(self, name):
        raise UnavailableError("not now")


async def test_a_deletion_that_broke_off_is_finished_by_the_next(core, secrets, fleet_resources):
    failing = Registration(core.webhooks, Forgetful(fleet_resources.aws.secretsmanager, prefix=fleet_resources.settings.table))
    async with serving(known(dataclasses.replace(core, registration=failing))) as client:
        made = await create(client, secret=SECRET)
        assert (await client.delete(f"{WEBHOOKS}/{made['id']}")).status_code == 503
        assert (await client.get(WEBHOOKS)).json()["webhooks"] == []
        assert await core.totals.of(["webhooks"]) == {"webhooks": 0}
    async with serving(known(core)) as client:
        assert (await client.delete(f"{WEBHOOKS}/{made['id']}")).status_code == 200
        assert (await client.delete(f"{WEBHOOKS}/{made['id']}")).status_code == 404
    assert await kept_secrets(fleet_resources) == []
    assert await core.totals.of(["webhooks"]) == {"webhooks": 0}


async def test_a_caller_has_the_webhooks_of_his_namespaces(core):
    policy = dataclasses.replace(core.policy, allowed_namespaces=("gco-jobs", "team-a"))
    core = known(dataclasses.replace(core, policy=policy))

    def caller(*namespaces, rights=(Right.READ, Right.SUBMIT)):
        return Caller(name="ann", rights=frozenset(rights), namespaces=frozenset(namespaces) or None)

    async with serving_caller(core, caller()) as everywhere:
        every, other, own = [await create(everywhere, namespace=namespace) for namespace in (None, "gco-jobs", "team-a")]
    async with serving_caller(core, caller("team-a")) as bound:
        assert [one["id"] for one in (await bound.get(WEBHOOKS)).json()["webhooks"]] == [own["id"]]
        for found in (every, other):
            assert (await bound.delete(f"{WEBHOOKS}/{found['id']}")).status_code == 403
        assert (await bound.get(WEBHOOKS, params={"namespace": "gco-jobs"})).status_code == 403
        for namespace in (None, "gco-jobs"):
            assert (await bound.post(WEBHOOKS, json=request(namespace=namespace))).status_code == 403
        assert (await bound.delete(f"{WEBHOOKS}/{own['id']}")).status_code == 200
    async with serving_caller(core, caller(rights=[Right.READ])) as reader:
        assert (await reader.post(WEBHOOKS, json=request())).status_code == 403
        assert len((await reader.get(WEBHOOKS)).json()["webhooks"]) == 2
