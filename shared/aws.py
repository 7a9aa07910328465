"""AWS clients: one for each service and process, made at start and closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

CONFIG = AioConfig(
    retries={"mode": "standard", "max_attempts": 6},
    connect_timeout=5,
    read_timeout=25,
    max_pool_connections=100,
    tcp_keepalive=True,
)
"""Six tries with exponential back-off and jitter; a read lasts longer than a long poll of 20 s."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Aws:
    """The clients of the control region; a service that was not asked for is None."""

    dynamodb: Any = None
    sqs: Any = None
    s3: Any = None
    ec2: Any = None


@asynccontextmanager
async def connect(region: str, *services: str, config: AioConfig = CONFIG) -> AsyncIterator[Aws]:
    """The clients of the named services (`dynamodb`, `sqs`, `s3`, `ec2`) in a region."""
    session = get_session()
    async with AsyncExitStack() as stack:
        clients = {
            service: await stack.enter_async_context(session.create_client(service, region_name=region, config=config))
            for service in services
        }
        yield Aws(**clients)
