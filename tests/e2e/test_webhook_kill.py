"""The webhook worker dies by SIGKILL again and again, and everything is told: at least once, under one id, in order for each job.

`make kill-test` runs the long one, of 500 deliveries. The ordinary tests run a short one.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.webhooks.deliveries import DeliveryState
from tests.conftest import FleetResources
from tests.integration.webhooks.fleet import WebhookFleet, events_of, ids, running_fleet, until

LEASE_SECONDS = 2.0
EVENTS = {1: "job.queued", 4: "job.started", 5: "job.completed"}


@dataclass
class Process:
    """A worker as it runs in production."""

    fleet: WebhookFleet
    log: Path
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        settings = self.fleet.core.settings
        names = {
            "TABLE": settings.table,
            "BUCKET": settings.bucket,
            "QUEUE_PREFIX": settings.queue_prefix,
            "REGIONS": "us-east-1",
            "WEBHOOK_LOCAL": "true",
            "WEBHOOK_LEASE_SECONDS": str(LEASE_SECONDS),
            "WEBHOOK_STREAM_LEASE_SECONDS": str(LEASE_SECONDS),
        }
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "workers.webhooks"),
                env=os.environ | {f"GPUFLEET_{name}": value for name, value in names.items()},
                stdout=log,
                stderr=log,
            )

    async def kill(self) -> None:
        assert self.process is not None
        assert self.process.returncode is None, self.log.read_text()[-5000:]
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def working(fleet: WebhookFleet, log: Path) -> AsyncIterator[Process]:
    process = Process(fleet, log)
    await process.start()
    try:
        yield process
    finally:
        await process.kill()


async def killed_again_and_again(fleet: WebhookFleet, log: Path, *, deliveries: int, kills: int, within: float) -> None:
    """Jobs come and go, and the worker is killed at random times while their events are told to two receivers."""
    chance = random.Random(7)
    receivers = [await fleet.receiver(), await fleet.receiver()]
    webhooks = [await fleet.subscribe(receiver) for receiver in receivers]
    jobs = deliveries // (len(EVENTS) * len(webhooks)) + 1
    begun = time.monotonic()
    async with working(fleet, log) as process:
        coming = asyncio.create_task(come_and_go(fleet, jobs))
        for _ in range(kills):
            heard = sum(len(receiver.received) for receiver in receivers)
            await until(lambda before=heard: sum(len(one.received) for one in receivers) > before, seconds=90)
            await asyncio.sleep(chance.uniform(0, 0.4))
            await process.kill()
            await process.start()
        heads = await coming
        for webhook in webhooks:
            await fleet.until_settled(webhook, jobs * len(EVENTS), seconds=within - (time.monotonic() - begun))

    wanted = {f"{head.id}#{number}" for head in heads for number in EVENTS}
    for webhook, receiver in zip(webhooks, receivers, strict=True):
        page = await fleet.deliveries.page(webhook.id, limit=10_000)
        assert {one.state for one in page.deliveries} == {DeliveryState.DELIVERED}
        assert ids(receiver).keys() == wanted
        for head in heads:
            assert list(dict.fromkeys(events_of(receiver, head.id))) == list(EVENTS.values())
    twice = sum(count - 1 for receiver in receivers for count in ids(receiver).values())
    sys.stderr.write(f"\n{2 * len(wanted)} deliveries, {kills} kills, {twice} more than once, {time.monotonic() - begun:.0f} s\n")


async def come_and_go(fleet: WebhookFleet, jobs: int) -> list:
    return [await fleet.ran() for _ in range(jobs)]


@pytest.fixture
async def fleet(fleet_resources: FleetResources) -> AsyncIterator[WebhookFleet]:
    async with running_fleet(fleet_resources) as running:
        yield running


@pytest.mark.timeout(240)
async def test_what_happens_is_told_though_the_worker_is_killed(fleet: WebhookFleet, tmp_path: Path) -> None:
    await killed_again_and_again(fleet, tmp_path / "log", deliveries=120, kills=3, within=200)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_five_hundred_deliveries_arrive_though_the_worker_is_killed_all_the_time(
    fleet: WebhookFleet, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "slow" not in request.config.option.markexpr or "not slow" in request.config.option.markexpr:
        pytest.skip("takes minutes; run by `make kill-test`")
    await killed_again_and_again(fleet, tmp_path / "log", deliveries=500, kills=12, within=800)
