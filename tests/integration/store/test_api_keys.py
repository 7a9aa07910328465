"""Keys of callers in the table."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shared.errors import ConflictError, NotFoundError
from shared.store.api_keys import ApiKeys
from shared.store.table import Table
from tests.unit.identity.builders import NOW, api_key


@pytest.fixture
def keys(fleet_resources):
    return ApiKeys(Table(fleet_resources.aws.dynamodb, fleet_resources.settings.table))


async def test_a_key_is_found_by_its_id_and_by_its_name_as_it_was_written(keys):
    kept, _ = api_key("ci.nightly_2", rights=("read", "admin"), namespaces=("b", "a"), expires_at=NOW)
    everywhere, _ = api_key("root", rights=("admin",))
    for one in (kept, everywhere):
        await keys.put(one)

    assert await keys.get(kept.id) == await keys.find(kept.id) == await keys.find("ci.nightly_2") == kept
    assert await keys.all() == [kept, everywhere]


async def test_of_two_who_want_one_name_at_once_one_gets_it(keys):
    wanted = [api_key("ci")[0] for _ in range(5)]
    outcomes = await asyncio.gather(*(keys.put(one) for one in wanted), return_exceptions=True)

    refused = [one for one in outcomes if one is not None]
    assert [type(one) for one in refused] == [ConflictError] * 4
    (stands,) = await keys.all()
    assert await keys.find("ci") == stands


async def test_a_write_whose_answer_was_lost_can_be_made_again(keys):
    kept, _ = api_key("ci")
    await keys.put(kept)
    await keys.put(kept)

    assert await keys.all() == [kept]


async def test_a_name_is_free_again_when_its_key_is_gone_and_stays_with_whoever_has_it_since(keys):
    (first, _), (second, _) = api_key("ci"), api_key("ci")
    await keys.put(first)
    await keys.remove(first)
    assert await keys.get(first.id) is None
    await keys.put(second)
    await keys.remove(first)

    assert await keys.find("ci") == second


@pytest.mark.parametrize("name", ["", "ci", "0" * 16, "x" * 5000, "NAME#ci", "\ud800", "ci\n"])
async def test_an_unknown_key_is_not_found_and_what_can_be_none_is_not_looked_for(keys, name):
    with pytest.raises(NotFoundError):
        await keys.find(name)


def administrator(name, **more):
    return api_key(name, rights=("admin",), **more)[0]


async def test_the_last_key_that_administers_stays(keys):
    last, bound = administrator("last"), administrator("bound", namespaces=("a",))
    reader, expired = api_key("reader", rights=("read", "submit"))[0], administrator("expired", expires_at=NOW)
    for one in (last, bound, reader, expired):
        await keys.put(one)

    with pytest.raises(ConflictError, match="Key 'last' is the last with the right 'admin' in all namespaces"):
        await keys.remove_but_the_last(last, now=NOW)
    for one in (bound, reader, expired):
        await keys.remove_but_the_last(one, now=NOW)
    assert await keys.all() == [last]

    lapsing = administrator("lapsing", expires_at=NOW + timedelta(seconds=1))
    await keys.put(lapsing)
    await keys.remove_but_the_last(last, now=NOW)
    assert await keys.all() == [lapsing]


async def test_of_all_that_are_removed_at_once_one_stays(keys):
    made = [administrator(f"a{number}") for number in range(4)]
    for one in made:
        await keys.put(one)

    outcomes = await asyncio.gather(*(keys.remove_but_the_last(one, now=NOW) for one in made), return_exceptions=True)

    (refused,) = [one for one in outcomes if one is not None]
    assert isinstance(refused, ConflictError)
    (stays,) = await keys.all()
    assert outcomes[made.index(stays)] is refused


async def test_two_who_look_at_the_same_time_leave_one(keys, monkeypatch):
    """Both have seen the other's key when they remove their own."""
    made = [administrator("a"), administrator("b")]
    for one in made:
        await keys.put(one)
    both, read, looks = asyncio.Barrier(2), keys.all, []

    async def together():
        found = await read()
        looks.append(found)
        if len(looks) <= 2:
            await both.wait()
        return found

    monkeypatch.setattr(keys, "all", together)
    outcomes = await asyncio.gather(*(keys.remove_but_the_last(one, now=NOW) for one in made), return_exceptions=True)

    assert {type(one) for one in outcomes} == {ConflictError, type(None)}
    assert len(await read()) == 1


async def test_a_name_that_another_key_has_got_since_is_no_hindrance(keys):
    first, second, other = administrator("ci"), administrator("ci"), administrator("other")
    await keys.put(first)
    await keys.remove(first)
    for one in (second, other):
        await keys.put(one)

    await keys.remove_but_the_last(first, now=NOW)

    assert await keys.all() == [second, other]
    assert await keys.find("ci") == second
