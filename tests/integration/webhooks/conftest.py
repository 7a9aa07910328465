"""A fleet with webhooks for each test."""

from collections.abc import AsyncIterator

import pytest

from tests.conftest import FleetResources
from tests.integration.webhooks.fleet import WebhookFleet, running_fleet


@pytest.fixture
async def fleet(fleet_resources: FleetResources) -> AsyncIterator[WebhookFleet]:
    """A fleet without workers."""
    async with running_fleet(fleet_resources) as running:
        yield running
