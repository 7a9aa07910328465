"""Bootstrap of an endpoint that is named rather than taken from this process's own environment, which may point at a real account."""

from __future__ import annotations

from collections.abc import Mapping

from shared.aws import connect
from shared.settings import Settings
from shared.store.bootstrap import Report, bootstrap
from workers.local.environment import settings_alone


async def bootstrap_at(endpoint: str, variables: Mapping[str, str]) -> Report:
    """Make table, queues and bucket with the settings and credentials of some environment."""
    wanted = {name: value for name, value in variables.items() if name.startswith(("AWS_", "GPUFLEET_"))}
    with settings_alone(wanted | {"AWS_ENDPOINT_URL": endpoint}):
        settings = Settings()
        async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
            return await bootstrap(aws, settings)
