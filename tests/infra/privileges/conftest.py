"""One visit of one fleet under its roles, for all tests of this folder: what it asked for is written down."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
import pytest_asyncio
import yaml

from tests.infra.emulator.record import Asked
from tests.infra.fleet import EnforcedFleet
from tests.infra.privileges import verbs
from tests.infra.privileges.installation import FromRoles
from tests.infra.privileges.schedules import schedules
from tests.infra.privileges.visit.everything import NODES, everything
from tests.infra.privileges.visit.visitor import Visitor
from tests.infra.privileges.visit.webhooks import Gone
from workers.local.cluster.access import Record
from workers.local.demo.aftermath import new_secret
from workers.local.demo.receiver import Receiver
from workers.local.demo.story import SETTINGS
from workers.local.options import Options


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What was asked for, and by which rights it was held."""

    asked: set[Asked]
    audit: list[Record]
    policies: dict
    manifests: list
    regions: tuple[str, ...]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def recorded() -> Recorded:
    installation = FromRoles()
    fleet = EnforcedFleet(installation, Options(nodes=NODES, settings={**SETTINGS, "GPUFLEET_COSTS_INTERVAL_MINUTES": "5"}))
    async with (
        fleet,
        httpx.AsyncClient(base_url=fleet.api_url, timeout=60, trust_env=False) as client,
        Receiver(secret=new_secret()) as receiver,
        Gone() as gone,
    ):
        async with schedules(fleet) as failures:
            await everything(Visitor(fleet, client, receiver, gone))
        assert failures == []
        return Recorded(
            asked=fleet.asked(),
            audit=verbs.read(fleet.paths.audit),
            policies=installation.policies(fleet),
            manifests=[one for one in yaml.safe_load_all(installation.manifests()) if one],
            regions=fleet.options.regions,
        )
