"""A server of prices, and clients that speak to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiobotocore.config import AioConfig

from shared.aws import Aws, connect
from tests.integration.costs.aws_prices import PriceServer, price_server


@dataclass(frozen=True)
class Prices:
    """The server, and clients of it."""

    server: PriceServer
    aws: Aws


@pytest.fixture
async def prices(aws_environment: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Prices]:
    config = AioConfig(retries={"mode": "standard", "max_attempts": 1}, parameter_validation=False)
    async with price_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        async with connect("us-east-1", "ec2", "pricing", config=config) as aws:
            yield Prices(server, aws)
