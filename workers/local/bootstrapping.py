"""Bootstrap of an endpoint that is named rather than taken from this process's own environment, which may point at a real account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from shared.aws import Aws, connect
from shared.clock import SystemClock
from shared.identity.callers import Right
from shared.identity.keys import ApiKey, new_key
from shared.settings import Settings
from shared.store.api_keys import ApiKeys
from shared.store.bootstrap import Report, bootstrap
from shared.store.table import Table
from workers.local.environment import settings_alone

ADMINISTRATOR = "admin"
"""The name of the first key."""


async def bootstrap_at(endpoint: str, variables: Mapping[str, str]) -> Report:
    """Make table, queues and bucket with the settings and credentials of some environment."""
    async with _at(endpoint, variables) as (aws, settings):
        return await bootstrap(aws, settings)


async def first_key_at(endpoint: str, variables: Mapping[str, str]) -> str:
    """Make the first administrator's key in a table that has none yet; returns its text, which is kept nowhere else."""
    key_id, text, digest = new_key()
    async with _at(endpoint, variables) as (aws, settings):
        key = ApiKey(
            id=key_id,
            name=ADMINISTRATOR,
            rights=frozenset(Right),
            digest=digest,
            created_at=SystemClock().now(),
            created_by="gpufleet up",
        )
        await ApiKeys(Table(aws.dynamodb, settings.table)).put(key)
    return text


@asynccontextmanager
async def _at(endpoint: str, variables: Mapping[str, str]) -> AsyncIterator[tuple[Aws, Settings]]:
    wanted = {name: value for name, value in variables.items() if name.startswith(("AWS_", "GPUFLEET_"))}
    with settings_alone(wanted | {"AWS_ENDPOINT_URL": endpoint}):
        settings = Settings()
        async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
            yield aws, settings
