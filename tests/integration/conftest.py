"""A region for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import FleetResources
from tests.integration.region import Region, running_region


@pytest.fixture
async def region(fleet_resources: FleetResources, tmp_path: Path) -> AsyncIterator[Region]:
    """A region without workers, with a lease of 3 s."""
    async with running_region(fleet_resources, tmp_path, lease_seconds=3.0) as running:
        yield running
