"""Regions whose waits are short, and whose workers can be killed as SIGKILL kills."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from shared.jobs import change, retry, submission, transitions
from shared.jobs.model import RetryPolicy
from tests.conftest import FleetResources
from tests.integration.region import Region, running_region


@pytest.fixture
async def frail(fleet_resources: FleetResources, tmp_path: Path) -> AsyncIterator[Region]:
    """A region with a lease of 1 s. A worker that is killed there finishes nothing."""
    async with running_region(fleet_resources, tmp_path, lease_seconds=1.0, shutdown_seconds=0.001) as running:
        yield running


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second until a cluster that accepts nothing is asked again, a lost bell is rung again, and a stop is tried again."""
    monkeypatch.setattr(retry, "CLUSTER_BACKOFF", RetryPolicy(max_attempts=20, backoff_seconds=1, max_backoff_seconds=1))
    for module in (change, submission, transitions):
        monkeypatch.setattr(module, "first_ring", lambda now: now + timedelta(seconds=1))
    monkeypatch.setattr(transitions, "STOP_RETRY", timedelta(seconds=1))
