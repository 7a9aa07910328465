"""Every program as a process of its own: it answers probes, and on SIGTERM it ends by itself, in time and with 0."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.integration.region import REGION, running_region
from workers import probe
from workers.local.ports import free_ports

PROGRAMS = {
    "api": ["workers.api"],
    "ingest": ["workers.ingest"],
    "dispatcher": ["workers.dispatcher", "--region", REGION],
    "observer": ["workers.observer", "--region", REGION],
    "sweeper": ["workers.sweeper"],
    "webhooks": ["workers.webhooks"],
    "costs": ["workers.costs"],
    "metrics": ["workers.metrics"],
    "together": ["workers.together", "--region", REGION],
}
SHUTDOWN_SECONDS = 5


@pytest.fixture
async def region(fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path, kubeconfig=tmp_path / "kubeconfig") as found:
        yield found


def environment_of(region, **more):
    settings = region.settings
    port, api_port = free_ports(2)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GPUFLEET_")},
        "GPUFLEET_TABLE": settings.table,
        "GPUFLEET_BUCKET": settings.bucket,
        "GPUFLEET_QUEUE_PREFIX": settings.queue_prefix,
        "GPUFLEET_REGIONS": REGION,
        "GPUFLEET_KUBECONFIG": str(settings.kubeconfig),
        "GPUFLEET_METRICS_PORT": "0",
        "GPUFLEET_API_PORT": str(api_port),
        "GPUFLEET_SHUTDOWN_SECONDS": str(SHUTDOWN_SECONDS),
        "GPUFLEET_PROBE_PORT": str(port),
        **more,
    }


@contextmanager
def running(program, region):
    environment = environment_of(region)
    process = subprocess.Popen(
        [sys.executable, "-m", *PROGRAMS[program]], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield process, environment
    finally:
        process.kill()
        process.communicate()


async def asked(which, environment):
    """In a thread: the cluster is served by this one."""
    return await asyncio.to_thread(probe.ask, which, environment)


async def until_ready(process, environment, seconds=30.0):
    deadline = time.monotonic() + seconds
    told = "never asked"
    while time.monotonic() < deadline and process.poll() is None:
        well, told = await asked("readyz", environment)
        if well:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"not ready: {told}; ended with {process.poll()}")


@pytest.mark.parametrize("program", PROGRAMS)
async def test_each_answers_probes_and_ends_in_time_when_it_is_asked_to(region, program):
    with running(program, region) as (process, environment):
        await until_ready(process, environment)
        assert await asked("livez", environment) == (True, "ok")

        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        output, _ = await asyncio.to_thread(process.communicate, timeout=SHUTDOWN_SECONDS + 10)

    assert process.returncode == 0, output.decode()
    assert time.monotonic() - begun < SHUTDOWN_SECONDS + 5
    assert b"stopped" in output


def ended_at_once(program, environment):
    """Its exit code, and what it said with the level error."""
    done = subprocess.run(
        [sys.executable, "-m", *PROGRAMS[program]], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    return done.returncode, [line["error"] for line in lines if line["level"] == "error"]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_port_for_probes_that_is_taken_is_told_in_one_line(region, program):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, errors = await asyncio.to_thread(ended_at_once, program, environment_of(region, GPUFLEET_PROBE_PORT=port))

    assert code == 2
    (told,) = errors
    assert told.startswith(f"GPUFLEET_PROBE_PORT: {port}: must be a port at which probes can be answered")


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        ({"GPUFLEET_KUBECONFIG": "/nope"}, 1, 'GPUFLEET_KUBECONFIG: "/nope": must be a file; there is none at this path'),
        ({"GPUFLEET_LEASE_SECONDS": "0"}, 2, 'GPUFLEET_LEASE_SECONDS: "0": must be more than 0'),
    ],
    ids=["kubeconfig", "number"],
)
async def test_a_setting_that_cannot_be_used_is_told_in_one_line(region, more, code, told):
    assert await asyncio.to_thread(ended_at_once, "dispatcher", environment_of(region, **more)) == (code, [told])
