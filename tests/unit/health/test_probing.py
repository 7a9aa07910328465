"""What a process answers when it is asked how it is, over HTTP as a kubelet asks, and what the health check of an image makes of it."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from shared.errors import InvalidError
from shared.health.beats import STALLED_AFTER
from shared.settings import Settings
from workers import probe
from workers.loops import AllPasses, Passes
from workers.probing import DEAD_AFTER, LoopVitals, probed

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


class At:
    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> datetime:
        return self.moment


@pytest.fixture
def clock():
    return At()


@pytest.fixture
def passes(clock):
    return Passes(clock)


@pytest.fixture
def stop():
    return asyncio.Event()


@asynccontextmanager
async def asked(passes, clock, stop):
    """What asks the process of a loop how it is: status and text."""
    async with probed(Settings(probe_port=0), LoopVitals(passes, clock), stop) as port, httpx.AsyncClient() as client:

        async def ask(which):
            answer = await client.get(f"http://127.0.0.1:{port}/{which}")
            return answer.status_code, answer.text.strip()

        yield ask


async def test_a_loop_is_ready_after_its_first_good_pass_and_alive_before(passes, clock, stop):
    async with asked(passes, clock, stop) as ask:
        passes.begin()
        assert await ask("readyz") == (503, "no pass has succeeded yet")
        assert await ask("livez") == (200, "ok")
        passes.succeed()
        clock.moment += timedelta(days=1)  # waiting for work
        assert await ask("readyz") == (200, "ok")
        assert await ask("livez") == (200, "ok")


async def test_a_loop_that_fails_is_unready_and_alive_however_long(passes, clock, stop):
    passes.begin()
    passes.succeed()
    async with asked(passes, clock, stop) as ask:
        passes.begin()
        passes.fail(ConnectionError("the table is away"))
        clock.moment += timedelta(days=1)
        assert await ask("readyz") == (503, "the last pass failed: the table is away")
        assert await ask("livez") == (200, "ok")
        passes.begin()
        passes.succeed()
        assert await ask("readyz") == (200, "ok")


async def test_a_pass_that_does_not_end_makes_a_loop_unready_first_and_dead_later(passes, clock, stop):
    passes.begin()
    passes.succeed()
    clock.moment += timedelta(hours=1)
    passes.begin()
    began = clock.moment.isoformat()
    async with asked(passes, clock, stop) as ask:
        clock.moment += STALLED_AFTER
        assert (await ask("readyz"))[0] == 200
        clock.moment += timedelta(seconds=1)
        assert await ask("readyz") == (503, f"a pass has been under way since {began}")
        assert (await ask("livez"))[0] == 200
        clock.moment += DEAD_AFTER - STALLED_AFTER
        assert await ask("livez") == (503, f"a pass has been under way since {began}")


async def test_of_several_loops_the_worst_counts(passes, clock, stop):
    other = Passes(clock)
    for one in (passes, other):
        one.begin()
        one.succeed()
    clock.moment += timedelta(seconds=1)
    passes.begin()
    async with asked(AllPasses([passes, other]), clock, stop) as ask:
        clock.moment += DEAD_AFTER + timedelta(seconds=1)
        other.begin()
        other.succeed()
        assert [(await ask(which))[0] for which in ("readyz", "livez")] == [503, 503]


async def test_a_process_that_is_asked_to_end_is_unready_while_it_finishes(passes, clock, stop):
    passes.begin()
    passes.succeed()
    async with asked(passes, clock, stop) as ask:
        stop.set()
        assert await ask("readyz") == (503, "asked to end")
        assert await ask("livez") == (200, "ok")


async def test_without_a_port_nobody_listens_and_the_server_is_not_even_loaded(passes, stop):
    async with probed(Settings(), LoopVitals(passes), stop) as port:
        assert port is None


async def test_a_port_that_is_taken_is_told_with_the_settings_that_decide_it(passes, stop):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings(probe_port=taken.getsockname()[1])
        with pytest.raises(InvalidError, match=r"GPUFLEET_PROBE_PORT: \d+: must be .*GPUFLEET_PROBE_HOST is 127\.0\.0\.1\): .*in use"):
            async with probed(settings, LoopVitals(passes), stop):
                pass


async def check(*arguments, **variables):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.probe", *arguments, env=variables, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    return process.returncode, told.decode().strip()


async def test_the_health_check_of_an_image_ends_as_the_worker_is(passes, clock, stop):
    async with probed(Settings(probe_port=0), LoopVitals(passes, clock), stop) as port:
        where = {"GPUFLEET_PROBE_PORT": str(port), "GPUFLEET_PROBE_HOST": "0.0.0.0"}
        assert await check(**where) == (1, "no pass has succeeded yet")
        assert await check("livez", **where) == (0, "ok")
        passes.begin()
        passes.succeed()
        assert await check(**where) == (0, "ok")
    ended, told = await check(**where)
    assert (ended, told.startswith(f"no answer at 127.0.0.1:{port}: ")) == (1, True)


async def test_an_event_loop_that_is_stuck_gives_no_answer(monkeypatch):
    """The kernel takes the connection, and nobody reads what was sent."""
    monkeypatch.setattr(probe, "SECONDS", 0.1)
    with socket.socket() as stuck:
        stuck.bind(("127.0.0.1", 0))
        stuck.listen()
        well, told = probe.ask("livez", {"GPUFLEET_PROBE_PORT": str(stuck.getsockname()[1])})
    assert (well, "timed out" in told) == (False, True)


@pytest.mark.parametrize("port", ["", "http", "-1"])
def test_the_health_check_says_what_it_needs(port):
    well, told = probe.ask("readyz", {"GPUFLEET_PROBE_PORT": port})
    assert (well, told) == (False, "GPUFLEET_PROBE_PORT must be the port at which the worker answers probes")


async def test_another_program_is_asked_by_its_url(passes, clock, stop):
    async with probed(Settings(probe_port=0), LoopVitals(passes, clock), stop) as port:
        assert await check(f"http://127.0.0.1:{port}/livez") == (0, "ok")
        assert await check(f"http://127.0.0.1:{port}/readyz") == (1, "no pass has succeeded yet")
    assert await check("ftp://127.0.0.1/") == (2, "")
