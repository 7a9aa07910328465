"""What a process tells of its loop, and when."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import UnavailableError
from shared.health.beats import EVERY, STALLED_AFTER, Beat
from shared.health.model import LoopState
from workers.beating import beating, is_gone
from workers.loops import AllPasses, Passes
from workers.process import owner

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


class At:
    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> datetime:
        return self.moment


class Kept:
    """Keeps beats; refuses as many as it is told to."""

    def __init__(self) -> None:
        self.told: list[Beat] = []
        self.refusals = 0
        self._more = asyncio.Event()

    async def put(self, beat: Beat) -> None:
        if self.refusals:
            self.refusals -= 1
            raise UnavailableError("away")
        self.told.append(beat)
        self._more.set()

    async def latest(self) -> list[Beat]:
        newest = {(beat.worker, beat.region, beat.owner): beat for beat in self.told}
        return [beat for beat in newest.values() if not beat.ended]

    async def until(self, count: int) -> Beat:
        async with asyncio.timeout(5):
            while len(self.told) < count:
                self._more.clear()
                await self._more.wait()
        return self.told[count - 1]


async def looks(count: int = 20) -> None:
    """Let some looks pass."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_only_what_is_new_is_told():
    clock, kept = At(), Kept()
    passes = Passes(clock)
    async with beating(kept, passes, worker="sweeper", clock=clock, look_seconds=0):
        assert (await kept.until(1)).passed_at is None
        passes.begin()
        passes.succeed()
        assert (await kept.until(2)).passed_at == NOW  # the first good pass
        for _ in range(5):
            clock.moment += timedelta(minutes=1)
            passes.begin()
            passes.succeed()
            await looks()
        assert len(kept.told) == 2
        passes.begin()
        passes.fail(UnavailableError("no table"))
        failing = await kept.until(3)
        assert (failing.state, failing.error) == (LoopState.FAILING, "no table")
        passes.succeed()
        assert (await kept.until(4)).state is LoopState.WELL
        clock.moment += timedelta(seconds=1)
        passes.begin()
        clock.moment += STALLED_AFTER + timedelta(seconds=1)
        assert (await kept.until(5)).state is LoopState.STALLED
        passes.succeed()
        assert (await kept.until(6)).state is LoopState.WELL
        clock.moment += EVERY
        assert (await kept.until(7)).at == clock.moment
    assert (kept.told[-1].ended, len(kept.told)) == (True, 8)


async def test_what_could_not_be_told_is_told_later():
    kept = Kept()
    kept.refusals = 3
    async with beating(kept, Passes(), worker="ingest", clock=At(), look_seconds=0):
        await kept.until(1)


async def test_a_table_that_does_not_answer_keeps_no_process_from_its_end():
    class Away(Kept):
        async def put(self, beat: Beat) -> None:
            if beat.ended:
                await asyncio.Event().wait()
            await super().put(beat)

    kept = Away()
    async with asyncio.timeout(5), beating(kept, Passes(), worker="ingest", clock=At(), look_seconds=0, end_seconds=0.01):
        await kept.until(1)
    assert [beat.ended for beat in kept.told] == [False]


async def test_who_begins_ends_what_a_killed_process_left():
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await ended.wait()
    alive = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    here = owner("all").rpartition("/")[0]
    dead = f"{here}/{ended.pid}"
    try:
        stays = [
            Beat(worker="sweeper", owner=f"{here}/{alive.pid}", at=NOW),
            Beat(worker="sweeper", owner=f"all/elsewhere/{ended.pid}", at=NOW),
            Beat(worker="ingest", owner=dead, at=NOW),
            Beat(worker="sweeper", region="us-east-1", owner=dead, at=NOW),
        ]
        kept = Kept()
        kept.told = [*stays, Beat(worker="sweeper", owner=dead, at=NOW, state=LoopState.FAILING)]
        async with beating(kept, Passes(), worker="sweeper", clock=At(), look_seconds=0):
            await kept.until(7)
            *others, own = await kept.latest()
            assert (others, own.owner) == (stays, owner("all"))
            assert kept.told[5] == Beat(worker="sweeper", owner=dead, at=NOW, state=LoopState.FAILING, ended=True)
    finally:
        await alive.communicate(b"\n")


def test_of_a_name_that_is_none_of_a_process_nothing_is_known():
    for name in ("all/host/x", "all/host/", "host", f"all/host/{10**30}"):
        assert not is_gone(name, beside="all/host/1")


async def test_a_loop_that_breaks_is_not_kept_by_its_beats():
    kept = Kept()
    try:
        async with beating(kept, Passes(), worker="ingest", clock=At(), look_seconds=0):
            raise RuntimeError("broken")
    except RuntimeError:
        assert kept.told[-1].ended
    else:
        raise AssertionError("it must be raised")


def test_several_loops_as_one():
    clock = At()
    first, second = Passes(clock), Passes(clock)
    both = AllPasses([first, second])
    assert (both.started_at, both.succeeded_at, both.error) == (None, None, None)
    first.begin()
    clock.moment += timedelta(seconds=5)
    second.begin()
    assert both.started_at == NOW
    first.succeed()
    assert (both.started_at, both.succeeded_at) == (clock.moment, None)
    clock.moment += timedelta(seconds=5)
    second.succeed()
    assert (both.started_at, both.succeeded_at) == (None, NOW + timedelta(seconds=5))
    second.fail(ValueError("no"))
    assert both.error == "no"


@pytest.mark.parametrize(("installed", "told"), [("0.2.0", "0.2.0"), ("0", None)], ids=["installed", "as it lies there"])
async def test_the_release_is_told_where_it_is_known(monkeypatch, installed, told):
    monkeypatch.setattr("workers.beating.release", lambda: installed)
    kept = Kept()

    async with beating(kept, Passes(), worker="sweeper", clock=At()):
        beat = await kept.until(1)

    assert beat.release == told
    assert beat.health(NOW).release == told
