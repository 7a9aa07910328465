"""The scripts that speak to an emulator by localstack-client, over the wire: what they tell, and jobs that they drop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from shared.queues.queue import Queue
from tests.integration.region import REGION, job, running_region
from workers.ingest.ingest import build
from workers.ingest.loop import IngestLoop

SCRIPTS = Path(__file__).parents[2] / "localstack"


@asynccontextmanager
async def ingesting(settings, aws):
    queue = await Queue.open(aws.sqs, settings.submissions_queue)
    loop = IngestLoop(queue=queue, ingest=await build(settings, aws), grace_seconds=settings.shutdown_seconds)
    stop = asyncio.Event()
    task = asyncio.create_task(loop.run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


@pytest.fixture
def script(aws_environment, fleet_settings, tmp_path):
    """Runs one of them for the fleet of a test; in a thread, since this one serves the cluster."""

    async def run(name, *arguments):
        where = ["--table", fleet_settings.table, "--prefix", fleet_settings.queue_prefix, "--regions", REGION]
        command = [sys.executable, "-W", "error", SCRIPTS / name, *arguments, *where]
        return await asyncio.to_thread(subprocess.run, command, env=os.environ, capture_output=True, text=True, check=False)

    return run


def a_file(folder, manifest):
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return str(path)


async def test_jobs_that_are_dropped_end_and_are_told_of(script, fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path) as region, ingesting(region.settings, fleet_resources.aws):
        await region.dispatcher()
        await region.observer()
        dropped = await script("producer.py", a_file(tmp_path, job()), "--times", "3", "--within", "30")
        told = await script("status.py")

    assert (dropped.returncode, dropped.stdout, dropped.stderr) == (0, "3 jobs have ended\n", "")
    assert f"{REGION:<40}      3 succeeded" in told.stdout.splitlines()
    assert f"{fleet_resources.settings.submissions_queue + '-dead':<40}      0 waiting      0 in flight" in told.stdout.splitlines()


async def test_one_that_is_refused_is_told(script, fleet_resources, tmp_path):
    settings = fleet_resources.settings
    async with ingesting(settings, fleet_resources.aws):
        refused = await script("producer.py", a_file(tmp_path, job() | {"spec": {}}), "--within", "30")
    assert (refused.returncode, refused.stderr) == (1, "1 refused: gpufleet rejections\n")


async def test_one_that_nobody_takes_is_told_after_the_time(script, fleet_resources, tmp_path):
    waited = await script("producer.py", a_file(tmp_path, job()), "--within", "0.1")
    assert (waited.returncode, waited.stderr) == (1, "1 of 1 have not ended within 0.1 s\n")


async def test_where_there_is_no_fleet_it_says_so(script):
    told = await script("status.py")
    assert (told.returncode, told.stderr.startswith("no fleet here: ")) == (1, True)
