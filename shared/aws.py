"""AWS clients: one for each service and process, made at start or, where few need the service, when first used; closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

CONNECTIONS = 100
"""Of each client, and so the most requests that it has under way."""

_LAZY = frozenset({"s3", "secretsmanager"})
"""Services that most processes seldom speak to or never."""

CONFIG = AioConfig(
    retries={"mode": "standard", "max_attempts": 6},
    connect_timeout=5,
    read_timeout=25,
    max_pool_connections=CONNECTIONS,
    tcp_keepalive=True,
    parameter_validation=False,
    user_agent="gpufleet",
)
"""Six tries with exponential back-off and jitter; a read lasts longer than a long poll of 20 s.

Parameters aren't held to botocore's model before they are sent: the store makes them of known types (`shared.store.values`), AWS checks
them anyway, and the walk over every attribute of every item takes a fifth of the time of a write. Nor is the text that names the client
put together anew for each request, which takes as much as signing it.
"""


def _nowhere(service: str, region: str) -> Any:
    raise LookupError(f"{service} in {region}: these clients were not made by connect")


@dataclass(frozen=True, kw_only=True, slots=True)
class Aws:
    """The clients of the control region; a service that was not asked for is None.

    `elsewhere` makes a client of a service in another region, which is connected by its first call and closed with the others.
    """

    dynamodb: Any = None
    sqs: Any = None
    s3: Any = None
    ec2: Any = None
    secretsmanager: Any = None
    dynamodbstreams: Any = None
    cloudwatch: Any = None
    pricing: Any = None
    eks: Any = None
    sts: Any = None
    elsewhere: Callable[[str, str], Any] = _nowhere


@asynccontextmanager
async def connect(region: str, *services: str, config: AioConfig = CONFIG) -> AsyncIterator[Aws]:
    """The clients of the named services (the fields of `Aws`) in a region."""
    session = get_session()
    async with AsyncExitStack() as stack:

        async def make(service: str, where: str = region) -> Any:
            return await stack.enter_async_context(session.create_client(service, region_name=where, config=config))

        made = {service: LazyClient(partial(make, service)) if service in _LAZY else await make(service) for service in services}
        yield Aws(**made, elsewhere=lambda service, where: LazyClient(partial(make, service, where)))


class LazyClient:
    """A client that is made by its first call.

    Most processes seldom speak to S3 or never, and its model alone takes six megabytes of memory and a part of a cold start.
    """

    def __init__(self, make: Callable[[], Awaitable[Any]]) -> None:
        self._make = make
        self._client: Any = None
        self._making = asyncio.Lock()

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        async def call(**request: Any) -> Any:
            return await getattr(await self._connected(), operation)(**request)

        return call

    def get_paginator(self, operation: str) -> LazyPaginator:
        """Pages of what an operation lists."""
        return LazyPaginator(self._connected, operation)

    async def _connected(self) -> Any:
        async with self._making:
            if self._client is None:
                self._client = await self._make()
        return self._client


class LazyPaginator:
    """Pages, the first of which makes the client."""

    def __init__(self, connected: Callable[[], Awaitable[Any]], operation: str) -> None:
        self._connected = connected
        self._operation = operation

    async def paginate(self, **request: Any) -> AsyncIterator[Any]:
        """One page after the other."""
        async for page in (await self._connected()).get_paginator(self._operation).paginate(**request):
            yield page
