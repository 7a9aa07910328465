"""Callers known by static keys."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import pytest

from shared.errors import UnavailableError
from shared.identity.keys import CACHE_SECONDS, KeySource, new_key
from shared.identity.sources import Authentication, Presented, UnknownCallerError
from tests.unit.identity.builders import NOW, api_key


class Table:
    """Keys, and how often each id was asked for."""

    def __init__(self, *keys):
        self.keys = {key.id: key for key in keys}
        self.asked = []
        self.away = False

    async def get(self, key_id):
        self.asked.append(key_id)
        await asyncio.sleep(0)
        if self.away:
            raise UnavailableError("throttled")
        return self.keys.get(key_id)


class Clock:
    """Wall clock and stop watch of a test."""

    def __init__(self):
        self.seconds = 0.0

    def now(self):
        return NOW + timedelta(seconds=self.seconds)


@pytest.fixture
def clock():
    return Clock()


def source(table, clock):
    return KeySource(table, clock, now=lambda: clock.seconds)


def bearing(text):
    return Presented(authorization=f"Bearer {text}")


async def test_a_key_makes_its_bearer_known(clock):
    kept, text = api_key("ci", rights=("read", "submit"), namespaces=("gco-jobs",))

    caller = await source(Table(kept), clock).identify(bearing(text))

    assert (caller.name, sorted(caller.rights), caller.namespaces) == ("key:ci", ["read", "submit"], {"gco-jobs"})
    assert caller.scope == "api:key:ci"


def test_a_key_has_256_random_bits_and_only_their_hash_is_kept():
    kept, text = api_key()
    secret = re.fullmatch("gpf_[0-9a-f]{16}_([0-9a-f]{64})", text)[1]

    assert secret not in kept.model_dump_json()
    assert len({new_key()[1] for _ in range(100)}) == 100


@pytest.mark.parametrize("authorization", [None, "", "Basic Z3BmOng=", "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x", "Bearer", "gpf_0"])
async def test_what_is_no_key_is_left_to_other_sources(clock, authorization):
    assert await source(Table(), clock).identify(Presented(authorization=authorization)) is None


def _changed(text, at):
    return text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :]


@pytest.mark.parametrize(
    "spoil", [lambda text: _changed(text, 4), lambda text: _changed(text, -1) + "0", lambda text: text[:-1], lambda text: "gpf_", str.upper]
)
async def test_all_that_is_not_right_is_told_in_the_same_words(clock, spoil):
    kept, text = api_key()
    expired, other = api_key("old", expires_at=NOW)
    found = source(Table(kept, expired), clock)
    wrong = spoil(text)

    if not wrong.startswith("gpf_"):
        assert await found.identify(bearing(wrong)) is None
        return
    with pytest.raises(UnknownCallerError) as spoilt:
        await found.identify(bearing(wrong))
    with pytest.raises(UnknownCallerError) as late:
        await found.identify(bearing(other))

    assert str(spoilt.value) == str(late.value)
    assert spoilt.value.wrong


async def test_the_secret_of_one_key_does_not_open_another(clock):
    (one, text), (two, _) = api_key("one"), api_key("two")

    with pytest.raises(UnknownCallerError):
        await source(Table(one, two), clock).identify(bearing(text.replace(one.id, two.id)))


async def test_a_key_is_remembered_for_a_while_and_is_refused_then_if_it_was_revoked(clock):
    kept, text = api_key()
    table = Table(kept)
    found = source(table, clock)

    for _ in range(3):
        await found.identify(bearing(text))
    table.keys.clear()
    clock.seconds = CACHE_SECONDS - 1
    await found.identify(bearing(text))
    assert len(table.asked) == 1
    clock.seconds = CACHE_SECONDS
    with pytest.raises(UnknownCallerError):
        await found.identify(bearing(text))


async def test_a_key_expires_to_the_second_though_it_is_remembered(clock):
    kept, text = api_key(expires_at=NOW + timedelta(seconds=10))
    found = source(Table(kept), clock)
    await found.identify(bearing(text))
    clock.seconds = 10.0

    with pytest.raises(UnknownCallerError):
        await found.identify(bearing(text))


async def test_unknown_ids_are_remembered_too_and_drive_out_no_key(clock):
    kept, text = api_key()
    table = Table(kept)
    found = source(table, clock)
    await found.identify(bearing(text))
    strangers = [new_key()[1] for _ in range(5000)]

    for stranger in [*strangers, strangers[-1], strangers[-1]]:
        with pytest.raises(UnknownCallerError):
            await found.identify(bearing(stranger))
    await found.identify(bearing(text))

    assert len(table.asked) == 5001
    assert len(found._unknown) == 4096


async def test_requests_that_come_together_read_once(clock):
    kept, text = api_key()
    table = Table(kept)
    found = source(table, clock)

    callers = await asyncio.gather(*(found.identify(bearing(text)) for _ in range(50)))

    assert (len(callers), len(table.asked)) == (50, 1)


async def test_a_table_that_is_away_refuses_nobody_for_good(clock):
    kept, text = api_key()
    table = Table(kept)
    found = source(table, clock)
    table.away = True
    with pytest.raises(UnavailableError):
        await found.identify(bearing(text))
    table.away = False

    assert (await found.identify(bearing(text))).name == "key:ci"


async def test_whoever_carries_nothing_is_told_what_is_expected(clock):
    sources = Authentication([source(Table(), clock)])

    with pytest.raises(UnknownCallerError, match="no credentials; expected is an API key") as nothing:
        await sources.caller(Presented())
    with pytest.raises(UnknownCallerError, match="of no kind that is known here") as other:
        await sources.caller(Presented(authorization="Basic eDp5"))

    assert (nothing.value.wrong, other.value.wrong) == (False, True)
