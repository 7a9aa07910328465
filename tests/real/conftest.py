"""Amazon's DynamoDB Local beside the emulator's SQS and S3, and a proxy that breaks what goes through it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from shared.aws import connect
from shared.settings import Settings
from shared.store.bootstrap import bootstrap
from tests.conftest import REGION, FleetResources

_FOLDER = "GPUFLEET_DYNAMODB_LOCAL"


@contextmanager
def listening(command: list[str], port: int, *, folder: Path | None = None) -> Iterator[str]:
    """A child process, from when it listens; it ends with the block."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{command[0]} does not listen on {port} (exit code {process.poll()})")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def dynamodb_local() -> Iterator[str]:
    """The address of Amazon's DynamoDB Local, in memory. It listens on all interfaces, so it is only started by `run.sh`."""
    folder = os.environ.get(_FOLDER)
    if folder is None:
        pytest.fail("DynamoDB Local listens on all interfaces: run it by `make test-real`, which gives it a network of its own")
    port = free_port()
    command = ["java", "-Djava.library.path=DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar", "-inMemory", "-sharedDb", "-port", str(port)]
    with listening(command, port, folder=Path(folder)) as url:
        yield url


@pytest.fixture
async def on_dynamodb_local(aws_environment: str, dynamodb_local: str, fleet_settings: Settings) -> AsyncIterator[FleetResources]:
    """A fleet of its own whose table is in DynamoDB Local."""
    async with AsyncExitStack() as stack:
        emulator = await stack.enter_async_context(connect(REGION, "sqs", "s3"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_local)
            amazon = await stack.enter_async_context(connect(REGION, "dynamodb"))
        aws = replace(emulator, dynamodb=amazon.dynamodb)
        await bootstrap(aws, fleet_settings)
        yield FleetResources(settings=fleet_settings, aws=aws, endpoint=dynamodb_local)


@pytest.fixture
def microburst(aws_endpoint: str) -> Iterator[str]:
    """The address of a proxy in front of the emulator. It breaks nothing yet; rules go to `/_microburst/rules`."""
    port = free_port()
    command = [sys.executable, "-m", "microburst", "--host", "127.0.0.1", "--port", str(port), "--upstream", aws_endpoint]
    with listening(command, port) as url:
        yield url
