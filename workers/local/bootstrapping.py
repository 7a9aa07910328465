"""Bootstrap of an endpoint that is named rather than taken from this process's own environment, which may point at a real account."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from shared.aws import connect
from shared.settings import Settings
from shared.store.bootstrap import Report, bootstrap


async def bootstrap_at(endpoint: str, variables: Mapping[str, str]) -> Report:
    """Make table, queues and bucket with the settings and credentials of some environment."""
    wanted = {name: value for name, value in variables.items() if name.startswith(("AWS_", "GPUFLEET_"))}
    with _environment(wanted | {"AWS_ENDPOINT_URL": endpoint}):
        settings = Settings()
        async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
            return await bootstrap(aws, settings)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set AWS and fleet variables for a while, and only those: botocore reads them when a client is made."""
    before = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "GPUFLEET_"))}
    for name in before:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)
