"""Where a job goes that may run anywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.jobs.placement import ClusterReport, RegionFacts, RegionPlacement
from shared.jobs.states import State

START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """Regions with free GPUs and queued jobs, and a clock."""

    def __init__(self, **regions):
        self.time = START
        self.regions = regions
        self.reads = 0
        self.reported = START
        self.drained = set()

    def now(self):
        return self.time

    async def facts(self, regions):
        self.reads += 1
        return {name: RegionFacts(report=self.report(name), drained=name in self.drained) for name in self.regions}

    def report(self, name):
        free, _ = self.regions[name]
        if free is None:
            return None
        return ClusterReport(region=name, at=self.reported, nodes=1, gpus_total=8, gpus_free=free)

    async def by_region(self, regions):
        return {name: {State.QUEUED: queued} for name, (_, queued) in self.regions.items()}

    def placement(self):
        return RegionPlacement(regions=tuple(self.regions), facts=self, backlog=self, clock=self)


@pytest.mark.parametrize(
    ("regions", "gpus", "chosen"),
    [
        ({"a": (8, 5), "b": (8, 2)}, 4, "b"),
        ({"a": (8, 5), "b": (2, 0)}, 4, "a"),
        ({"a": (2, 5), "b": (2, 1)}, 4, "b"),
        ({"a": (None, 5), "b": (None, 1)}, 4, "b"),
        ({"a": (4, 0), "b": (8, 0)}, 4, "b"),
        ({"a": (8, 0), "b": (8, 0)}, 4, "a"),
        ({"a": (0, 1), "b": (0, 0)}, 0, "b"),
        ({"a": (8, 3), "b": (None, 0)}, 1, "a"),
    ],
)
async def test_free_gpus_first_then_the_shortest_list(regions, gpus, chosen):
    assert await World(**regions).placement().place(gpus) == chosen


async def test_own_placements_count_until_the_next_look():
    world = World(a=(8, 0), b=(8, 0))
    placement = world.placement()

    assert [await placement.place(4) for _ in range(5)] == ["a", "b", "a", "b", "a"]
    assert world.reads == 1


async def test_what_is_known_is_read_again_after_five_seconds():
    world = World(a=(8, 0), b=(0, 0))
    placement = world.placement()
    await placement.place(4)
    world.regions = {"a": (0, 0), "b": (8, 0)}
    world.time += timedelta(seconds=5)

    assert await placement.place(4) == "b"
    assert world.reads == 2


async def test_an_old_report_says_nothing():
    world = World(a=(8, 3), b=(None, 0))
    world.reported = START - timedelta(minutes=20)

    assert await world.placement().place(4) == "b"


async def test_one_region_needs_no_look():
    world = World(a=(0, 9))

    assert await world.placement().place(4) == "a"
    assert world.reads == 0


async def test_a_drained_region_is_left_out():
    world = World(a=(8, 0), b=(0, 5))
    world.drained = {"a"}

    assert await world.placement().place(4) == "b"
    assert await world.placement().open_region(4) == "b"


async def test_where_every_region_is_drained_a_job_waits_in_one_and_is_moved_to_none():
    world = World(a=(8, 3), b=(8, 1))
    world.drained = {"a", "b"}

    assert await world.placement().place(4) == "b"
    assert await world.placement().open_region(4) is None


async def test_a_drained_region_that_is_the_only_one_keeps_its_jobs():
    world = World(a=(8, 0))
    world.drained = {"a"}

    assert await world.placement().place(1) == "a"
    assert await world.placement().open_region(1) is None
