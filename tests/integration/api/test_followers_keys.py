"""Logs that are followed with a key end when it does: within a minute, as everything that a revoked key could do."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from shared.errors import UnavailableError
from shared.identity.keys import CACHE_SECONDS, KeySource
from shared.jobs.states import State
from tests.integration.api.streaming import Reader, served
from tests.integration.region import job
from tests.unit.identity.builders import api_key
from workers.api import following, identity

CACHED = 0.3


@pytest.fixture
async def core(cluster_core, monkeypatch):
    """An API that knows keys, and forgets them soon."""
    monkeypatch.setattr(following, "CALLER_SECONDS", 0.1)
    monkeypatch.setattr(identity, "_source", lambda _, core: KeySource(core.api_keys, core.clock, seconds=CACHED))
    return replace(cluster_core, settings=cluster_core.settings.model_copy(update={"identity": ("keys",)}))


@pytest.fixture
async def paths(region):
    """The logs of a job that runs on and on, through either door."""
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true", logs="one"))
    running = await region.until(head.id, State.RUNNING)
    return {"gco": f"/api/v1/jobs/gco-jobs/{running.object.name}/logs", "fleet": f"/fleet/v1/jobs/{head.id}/logs"}


async def key(core, **more):
    kept, text = api_key(**more)
    await core.api_keys.put(kept)
    return kept, {"Authorization": f"Bearer {text}"}


async def following_with(api, path, headers):
    """A reader that has read a line, and goes on."""
    reader = Reader(headers=headers | {"Accept": "text/event-stream"})
    reading = asyncio.create_task(reader.read(api.url, path))
    async with asyncio.timeout(20):
        while not reader.lines:
            await asyncio.sleep(0.02)
    return reader, reading


def test_what_is_remembered_and_how_often_it_is_asked_are_less_than_a_minute():
    assert CACHE_SECONDS + following.CALLER_SECONDS < 60


@pytest.mark.parametrize("door", ["gco", "fleet"])
async def test_a_revoked_key_follows_no_more(core, paths, door, monkeypatch):
    asked = []
    read = core.api_keys.get

    async def counted(key_id):
        asked.append(key_id)
        return await read(key_id)

    monkeypatch.setattr(core.api_keys, "get", counted)
    async with served(core) as api:
        kept, headers = await key(core, name="ends")
        lasting, others = await key(core, name="stays")
        reader, reading = await following_with(api, paths[door], headers)
        other, reading_on = await following_with(api, paths[door], others)

        await core.api_keys.remove(kept)
        async with asyncio.timeout(10):
            await reading
            asked.clear()
            while asked.count(lasting.id) < 2:
                await asyncio.sleep(0.02)

        assert (reader.texts, reader.end) == (["one"], None)
        assert not reading_on.done()
        async with httpx.AsyncClient(base_url=api.url) as client:
            again = await client.get(paths[door], params={"follow": "true"}, headers=headers | {"Last-Event-ID": reader.last_id})
        assert again.status_code == 401
        assert other.texts == ["one"]
        await api_stops(api, reading_on)


async def test_plain_text_ends_too(core, paths):
    async with served(core) as api:
        kept, headers = await key(core)
        async with httpx.AsyncClient(base_url=api.url, timeout=20) as client:
            reading = asyncio.create_task(client.get(paths["fleet"], params={"follow": "true"}, headers=headers))
            async with asyncio.timeout(20):
                while api.following._free == 200:
                    await asyncio.sleep(0.02)
            await core.api_keys.remove(kept)

            assert (await reading).text == "one\n"


async def test_a_key_that_expires_follows_no_more(core, paths):
    async with served(core) as api:
        _, headers = await key(core, expires_at=core.clock.now() + timedelta(seconds=2))
        reader, reading = await following_with(api, paths["fleet"], headers)
        async with asyncio.timeout(10):
            await reading

        assert reader.end is None


async def test_while_the_table_does_not_answer_a_follower_goes_on(core, paths, monkeypatch):
    asked = []

    async def away(key_id):
        asked.append(key_id)
        raise UnavailableError("throttled")

    async with served(core) as api:
        _, headers = await key(core)
        _, reading = await following_with(api, paths["fleet"], headers)
        monkeypatch.setattr(core.api_keys, "get", away)
        async with asyncio.timeout(10):
            while len(asked) < 3:
                await asyncio.sleep(0.02)

        assert not reading.done()
        await api_stops(api, reading)


async def api_stops(api, reading):
    """The API ends, and the reader with it."""
    api.following.stopping.set()
    async with asyncio.timeout(10):
        await reading
