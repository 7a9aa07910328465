"""How often a caller may ask, and how often an address may try credentials."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

from shared.identity.callers import Caller
from shared.identity.sources import Authentication, Presented, UnknownCallerError
from workers.api.identity import Identity
from workers.api.rate_limits import RateLimits, Rates, network
from workers.api.requests import Requests


class Names:
    """Knows everybody who says `Bearer <name>`, but for those who are called wrong."""

    expects = "a name"

    def __init__(self):
        self.asked = 0
        self.gone = set()

    async def identify(self, presented):
        self.asked += 1
        if presented.bearer is None:
            return None
        if presented.bearer.startswith("wrong") or presented.bearer in self.gone:
            raise UnknownCallerError("nobody is called so", wrong=True)
        return Caller(name=presented.bearer)


@pytest.fixture(autouse=True)
def still(monkeypatch):
    """A clock that stands in the middle of a window until a test moves it."""
    clock = SimpleNamespace(now=1_800_000_000.5)
    monkeypatch.setattr(time, "time", lambda: clock.now)
    return clock


@pytest.fixture
def names():
    return Names()


def serving(source, rate="5/second", address="192.0.2.1"):
    """A client of an app behind the middleware, in the order of the API's own."""
    app = FastAPI()
    rates = Rates(rate)

    @app.get("/")
    async def root() -> str:
        return "fine"

    @app.get("/healthz")
    async def healthz() -> str:
        return "ok"

    app.add_middleware(RateLimits, rates=rates)
    app.add_middleware(Identity, authentication=Authentication([source]) if source else None, guesses=rates.guesses)
    app.add_middleware(Requests)

    def at(address):
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app, client=(address, 1)), base_url="http://fleet")

    return at


async def ask(client, name=None):
    return await client.get("/", headers={"Authorization": f"Bearer {name}"} if name else {})


async def test_who_asks_too_often_is_told_when_to_come_again(names, still):
    async with serving(names)("192.0.2.1") as client:
        answers = [await ask(client, "ada") for _ in range(7)]
        other = await ask(client, "grace")
        still.now += 2
        later = await ask(client, "ada")

    assert [one.status_code for one in answers] == [200] * 5 + [429] * 2
    assert (other.status_code, later.status_code) == (200, 200)
    assert answers[0].headers["ratelimit-policy"] == '"caller";q=5;w=1'
    assert [re.fullmatch(r'"caller";r=(\d+);t=\d+', one.headers["ratelimit"])[1] for one in answers] == list("4321000")
    refused = answers[-1]
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json() == {
        "detail": "this caller asks too often: the limit is 5 in 1 s",
        "request_id": refused.headers["x-request-id"],
    }


async def test_nobody_gets_twice_the_limit_where_two_windows_meet(names, still):
    async with serving(names, "100/minute")("192.0.2.1") as client:
        still.now = 1_800_000_000 // 60 * 60 + 59.0
        first = [(await ask(client, "ada")).status_code for _ in range(100)]
        still.now += 2
        second = [(await ask(client, "ada")).status_code for _ in range(100)]

    assert first == [200] * 100
    assert second.count(200) <= 2


async def test_the_local_administrator_meets_no_limit_that_he_could_notice():
    async with serving(None)("127.0.0.1") as client:
        answers = [await ask(client) for _ in range(50)]

    assert {one.status_code for one in answers} == {200}
    assert answers[0].headers["ratelimit-policy"] == '"caller";q=10000;w=1'


async def test_without_a_limit_nothing_is_counted_or_told(names):
    async with serving(names, None)("192.0.2.1") as client:
        answers = [await ask(client, "ada") for _ in range(50)]

    assert {(one.status_code, "ratelimit" in one.headers) for one in answers} == {(200, False)}


async def test_what_needs_no_caller_is_counted_by_address(names):
    at = serving(names, "1/hour")
    async with at("192.0.2.1") as client, at("192.0.2.2") as other:
        answers = [(await client.get("/healthz")).status_code for _ in range(101)]
        elsewhere = await other.get("/healthz")

    assert answers == [200] * 100 + [429]
    assert elsewhere.status_code == 200


async def test_an_address_that_tries_too_much_is_heard_no_more(names, still):
    at = serving(names)
    async with at("2001:db8::1") as client, at("2001:db8::ffff:1") as same, at("2001:db8:0:1::1") as other:
        tried = [(await ask(client, f"wrong{number}")).status_code for number in range(25)]
        asked = names.asked
        right_but_unknown = await ask(same, "ada")
        assert (await ask(other, "ada")).status_code == 200
        still.now += 121
        later = await ask(same, "ada")

    assert tried == [401] * 20 + [429] * 5
    assert names.asked == asked + 2  # of the other network, and of the later one
    assert right_but_unknown.status_code == 429
    assert "too many wrong credentials" in right_but_unknown.json()["detail"]
    assert 1 <= int(right_but_unknown.headers["retry-after"]) <= 120
    assert later.status_code == 200


async def test_whoever_was_known_lately_is_not_locked_out_by_others_behind_his_proxy(names):
    async with serving(names)("192.0.2.1") as client:
        assert (await ask(client, "ada")).status_code == 200
        for number in range(25):
            await ask(client, f"wrong{number}")

        assert (await ask(client, "ada")).status_code == 200
        assert (await ask(client, "grace")).status_code == 429


async def test_credentials_that_are_right_no_more_are_remembered_no_more(names):
    async with serving(names)("192.0.2.1") as client:
        await ask(client, "ada")
        names.gone.add("ada")
        for number in range(25):
            await ask(client, f"wrong{number}")

        assert [(await ask(client, "ada")).status_code for _ in range(2)] == [401, 429]


async def test_whoever_carries_nothing_tries_nothing(names):
    async with serving(names)("192.0.2.1") as client:
        assert {(await ask(client)).status_code for _ in range(50)} == {401}
        assert (await ask(client, "ada")).status_code == 200


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_what_one_client_has_of_addresses(address, expected):
    assert network(address) == expected


async def test_any_number_of_addresses_is_counted_in_bounded_memory():
    guesses = Rates(None).guesses
    for number in range(1500):
        scope = {"type": "http", "client": (f"10.1.{number // 256}.{number % 256}", 1)}
        await guesses.note(scope, Presented(authorization=f"Bearer {number}"), right=False)

    assert 500 < len(guesses._limiter.storage.storage) <= 1024
