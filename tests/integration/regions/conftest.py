"""Two regions over one table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from shared.jobs import change, placement, regions, submission, transitions
from shared.jobs.regions import RegionControl
from shared.store.regions import Regions
from tests.conftest import FleetResources
from tests.integration.region import Region, running_regions

EAST, WEST = "us-east-1", "eu-west-1"


@pytest.fixture
async def pair(fleet_resources: FleetResources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Region]]:
    """East and west without workers. What is believed for seconds is asked for anew; a lost bell rings after one."""
    monkeypatch.setattr(placement, "FRESH", timedelta(0))
    monkeypatch.setattr(regions, "RING_AGAIN", timedelta(seconds=1))
    monkeypatch.setattr(regions, "INTERRUPT_AFTER", timedelta(seconds=regions.OPEN_SECONDS + 0.5))
    for module in (change, submission, transitions):
        monkeypatch.setattr(module, "first_ring", lambda now: now + timedelta(seconds=1))
    async with running_regions(fleet_resources, tmp_path, (EAST, WEST), lease_seconds=3.0) as running:
        yield running


@pytest.fixture
def control(pair: list[Region]) -> RegionControl:
    """What drains and resumes them."""
    core = pair[0].core
    return RegionControl(statuses=Regions(core.table), regions=core.settings.regions, doorbell=core.doorbell, clock=core.clock)
