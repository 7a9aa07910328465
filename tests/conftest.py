"""What tests of many rooms share: one AWS emulator a run, and a fleet's own table, queues and bucket for each test."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from aiobotocore.session import AioSession, get_session

from shared.aws import Aws, connect
from shared.ids import RandomIds
from shared.settings import Settings
from shared.store.bootstrap import bootstrap

REGION = "us-east-1"
NOBODY = Path(__file__).with_name("nobody.pem")
"""An authority that has certified nobody."""


def pytest_configure(config: pytest.Config) -> None:
    """No test trusts the world's authorities, nor waits until they are read: 20 ms for each client, in this process and in every worker.

    Those that fetch packages do, which are run by name (`make infra-test`, `make test-real`).
    """
    if config.option.markexpr.startswith("not real and not infra"):
        os.environ["SSL_CERT_FILE"] = str(NOBODY)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole fleets go first: a file of few tests that take a minute must not be what all wait for at the end. The rest stays as it is."""
    items.sort(key=lambda item: item.nodeid.split("/")[1] not in {"e2e", "upgrade", "simulation"})


@dataclass(frozen=True, kw_only=True)
class FleetResources:
    """A bootstrapped fleet that no other test touches."""

    settings: Settings
    aws: Aws
    endpoint: str


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """The address of a running emulator (ministack), which ends with the tests.

    `GPUFLEET_TEST_AWS_ENDPOINT` names another one that runs already.
    """
    given = os.environ.get("GPUFLEET_TEST_AWS_ENDPOINT")
    if given:
        yield given
        return
    port = _free_port()
    environment = os.environ | {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "LOG_LEVEL": "ERROR",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
    }
    endpoint = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [sys.executable, "-m", "ministack"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _await(f"{endpoint}/_ministack/health", process)
            yield endpoint
        finally:
            process.terminate()


@pytest.fixture
def aws_environment(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The process's environment points at the emulator, as a user would have it."""
    point_at(aws_endpoint, monkeypatch)
    return aws_endpoint


def point_at(endpoint: str, patch: pytest.MonkeyPatch) -> None:
    """Have clients of this process speak to an emulator, as a user would."""
    for name, value in {"ENDPOINT_URL": endpoint, "ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": REGION}.items():
        patch.setenv(f"AWS_{name}", value)
    # A session reads the descriptions of AWS's services when its first client is made; one is enough for all tests.
    patch.setattr("shared.aws.get_session", _session)


@cache
def _session() -> AioSession:
    return get_session()


@pytest.fixture
async def aws(aws_environment: str) -> AsyncIterator[Aws]:
    """Clients of all services that the fleet uses."""
    async with connect(REGION, "dynamodb", "sqs", "s3", "secretsmanager") as clients:
        yield clients


@pytest.fixture
def fleet_settings() -> Settings:
    """Settings with names of their own."""
    return own_settings()


def own_settings() -> Settings:
    """Settings with names that nothing else has."""
    name = f"test-{RandomIds().nonce()}"
    return Settings(table=name, bucket=name, queue_prefix=name, control_region=REGION)


@pytest.fixture(scope="session")
def shared_settings(aws_endpoint: str) -> Settings:
    """A bootstrapped fleet for tests that leave nothing behind, or don't mind what others left; it spares them a bootstrap each."""
    settings = own_settings()

    async def make() -> None:
        async with connect(REGION, "dynamodb", "sqs", "s3", "secretsmanager") as clients:
            await bootstrap(clients, settings)

    with pytest.MonkeyPatch.context() as patch:
        point_at(aws_endpoint, patch)
        asyncio.run(make())
    return settings


@pytest.fixture
async def fleet_resources(aws: Aws, aws_endpoint: str, fleet_settings: Settings) -> FleetResources:
    """A fresh table, bucket and queues."""
    await bootstrap(aws, fleet_settings)
    return FleetResources(settings=fleet_settings, aws=aws, endpoint=aws_endpoint)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until the emulator answers; it takes a second."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the emulator ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the emulator did not answer within 30 s")
