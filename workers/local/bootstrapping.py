"""Bootstrap of an endpoint that is named rather than taken from this process's own environment, which may point at a real account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from shared.aws import Aws, connect
from shared.clock import SystemClock
from shared.settings import Settings
from shared.store.api_keys import ApiKeys
from shared.store.bootstrap import Report, bootstrap
from shared.store.table import Table
from workers.first_key import make_first_key
from workers.local.environment import settings_alone


async def bootstrap_at(endpoint: str, variables: Mapping[str, str]) -> Report:
    """Make table, queues and bucket with the settings and credentials of some environment."""
    async with _at(endpoint, variables) as (aws, settings):
        return await bootstrap(aws, settings)


async def first_key_at(endpoint: str, variables: Mapping[str, str]) -> str:
    """Make the first administrator's key in a table that has none yet; returns its text, which is kept nowhere else."""
    kept: list[str] = []
    async with _at(endpoint, variables) as (aws, settings):
        await make_first_key(ApiKeys(Table(aws.dynamodb, settings.table)), SystemClock(), by="gpufleet up", keep=kept.append)
    return kept[0]


@asynccontextmanager
async def _at(endpoint: str, variables: Mapping[str, str]) -> AsyncIterator[tuple[Aws, Settings]]:
    wanted = {name: value for name, value in variables.items() if name.startswith(("AWS_", "GPUFLEET_"))}
    with settings_alone(wanted | {"AWS_ENDPOINT_URL": endpoint}):
        settings = Settings()
        async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
            yield aws, settings
