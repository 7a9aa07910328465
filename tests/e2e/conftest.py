"""One embedded fleet for all end-to-end tests of a run.

It lives in a thread with a loop of its own, so that tests are plain functions that use the command as a user does.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import boto3
import pytest

from workers.cli.main import run
from workers.local.fleet import EmbeddedFleet
from workers.local.options import Options

SETTINGS = {"GPUFLEET_SWEEP_SECONDS": "1", "GPUFLEET_LEASE_SECONDS": "5"}


class Fleet:
    """A running fleet, and the command and a producer that are set up for it."""

    def __init__(self) -> None:
        self.embedded = EmbeddedFleet(Options(settings=SETTINGS))
        self._loop = asyncio.new_event_loop()
        # The thread must live as long as the fleet: Linux counts the death of the thread that started a child as its parent's.
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something in the fleet's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=90)

    def close(self) -> None:
        self.call(self.embedded.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=20)
        self._loop.close()

    @property
    def queue(self) -> str:
        return "gpufleet-submissions"

    def client(self, service: str) -> Any:
        """A client of plain boto3, as a producer has it."""
        env = self.embedded.aws_env
        session = boto3.session.Session(
            aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
            region_name=env["AWS_REGION"],
        )
        return session.client(service, endpoint_url=env["AWS_ENDPOINT_URL"])

    def drop(self, body: str) -> str:
        """Put a message on the submissions queue; gives its id."""
        sqs = self.client("sqs")
        try:
            url = sqs.get_queue_url(QueueName=self.queue)["QueueUrl"]
            return str(sqs.send_message(QueueUrl=url, MessageBody=body)["MessageId"])
        finally:
            sqs.close()


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    found = Fleet()
    try:
        found.call(found.embedded.__aenter__())
        yield found
    finally:
        found.close()


@pytest.fixture
def gpufleet(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command and gives what it wrote to standard output; with `--json`, as a document."""

    def command(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        found = run([*arguments, "--api", fleet.embedded.api_url])
        printed = capsys.readouterr()
        assert found == code, f"exit code {found}\n{printed.out}\n{printed.err}"
        return json.loads(printed.out) if "--json" in arguments else printed.out

    return command


def until(ask: Callable[[], Any], seconds: float = 60) -> Any:
    """Ask again and again until the answer is true; gives it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.1)
