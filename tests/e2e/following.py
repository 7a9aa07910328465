"""A job's logs followed over restarts of the API, by the command and through the GCO door at the same time.

`python -m tests.e2e.following --seconds 120` does so for two minutes on a fleet of its own and prints what came of it.
"""

import argparse
import asyncio
import itertools
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from httpx_sse import SSEError, aconnect_sse

from tests.e2e.jobs import a_job
from workers.local.fleet import EmbeddedFleet
from workers.local.options import Options

COMMAND = [sys.executable, "-c", "from workers.cli.main import main; main()"]
REGION = "us-east-1"
"""The region whose cluster the API itself stands beside."""


@dataclass(kw_only=True)
class Followed:
    """The lines that one reader has seen, each with the time of its arrival (seconds since it began)."""

    name: str
    lines: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    streams: int = 0
    began: float = field(default_factory=time.monotonic)

    def see(self, line: str) -> None:
        self.lines.append(line)
        self.times.append(time.monotonic() - self.began)

    @property
    def longest_gap(self) -> float:
        """The longest time without a line."""
        return max((later - earlier for earlier, later in itertools.pairwise(self.times)), default=0.0)


@dataclass(kw_only=True)
class Outcome:
    """What came of a run. `ends` are the restarts: the signal, and how long the process took to end."""

    expected: list[str]
    readers: list[Followed] = field(default_factory=list)
    ends: list[tuple[str, float]] = field(default_factory=list)

    def lost(self, reader: Followed) -> list[str]:
        seen = set(reader.lines)
        return [line for line in self.expected if line not in seen]

    def doubled(self, reader: Followed) -> int:
        return len(reader.lines) - len(set(reader.lines))

    def __str__(self) -> str:
        return "\n".join([*(f"{name} ended the API in {seconds:.1f} s" for name, seconds in self.ends), *map(self._told, self.readers)])

    def _told(self, reader: Followed) -> str:
        return (
            f"{reader.name}: {len(reader.lines)} of {len(self.expected)} lines, {len(self.lost(reader))} lost, {self.doubled(reader)} "
            f"doubled, in order: {reader.lines == self.expected}, longest gap {reader.longest_gap:.1f} s, {reader.streams} streams"
        )


async def run(fleet: EmbeddedFleet, *, seconds: float, lines: int, restarts: Sequence[signal.Signals]) -> Outcome:
    """Follow a job that writes so many lines in so many seconds, while the API is ended by each of the signals in turn."""
    outcome = Outcome(expected=[f"line {number}" for number in range(lines)])
    async with httpx.AsyncClient(base_url=fleet.api_url, timeout=60, trust_env=False) as client:
        manifest = a_job("followed", duration=str(seconds), logs="\n".join(outcome.expected))
        answer = await client.post("/api/v1/queue/jobs", json={"manifest": manifest, "target_region": REGION})
        job_id = answer.raise_for_status().json()["job"]["job_id"]
        name = await _started(client, job_id)
    async with asyncio.timeout(seconds * 2 + 120), asyncio.TaskGroup() as group:
        command = group.create_task(_by_command(fleet, job_id))
        door = group.create_task(_by_door(fleet, name))
        for ending in restarts:
            await asyncio.sleep(seconds / (len(restarts) + 1))
            outcome.ends.append(await _end_api(fleet, ending))
    outcome.readers = [command.result(), door.result()]
    return outcome


async def _started(client: httpx.AsyncClient, job_id: str) -> str:
    """The name of the job's object, once it runs."""
    async with asyncio.timeout(60):
        while True:
            job = (await client.get(f"/api/v1/queue/jobs/{job_id}")).raise_for_status().json()["job"]
            if job["status"] == "running":
                return str(job["k8s_job_name"])
            await asyncio.sleep(0.1)


async def _by_command(fleet: EmbeddedFleet, job_id: str) -> Followed:
    followed = Followed(name="gpufleet logs --follow", streams=1)
    arguments = [*COMMAND, "logs", job_id, "--follow", "--api", fleet.api_url]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async for line in process.stdout:
            followed.see(line.decode().rstrip("\n"))
        told = (await process.stderr.read()).decode()
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    assert code == 0, f"exit code {code}: {told}"
    return followed


async def _by_door(fleet: EmbeddedFleet, name: str) -> Followed:
    """As a browser's EventSource does it: comes back with the id of the last line until the stream says that this was the end."""
    followed = Followed(name="GCO door")
    last_id: str | None = None
    async with httpx.AsyncClient(base_url=fleet.api_url, timeout=httpx.Timeout(60, connect=5), trust_env=False) as client:
        while True:
            headers = {"Last-Event-ID": last_id} if last_id else {}
            params = {"follow": "true", "tail": "10000"}
            try:
                async with aconnect_sse(client, "GET", f"/api/v1/jobs/gco-jobs/{name}/logs", params=params, headers=headers) as source:
                    followed.streams += 1
                    async for event in source.aiter_sse():
                        data: dict[str, Any] = json.loads(event.data) if event.data else {}
                        if event.event == "end":
                            return followed
                        if event.event == "message" and data:
                            followed.see(data["line"])
                            last_id = event.id
            except (httpx.TransportError, SSEError):
                pass  # the API is away
            await asyncio.sleep(0.2)


async def _end_api(fleet: EmbeddedFleet, ending: signal.Signals) -> tuple[str, float]:
    """End the API by a signal; the supervisor starts it again. How long it took to end."""
    child = fleet.processes["api"]
    pid, begun = child.pid, time.monotonic()
    if ending is signal.SIGKILL:
        fleet.kill("api")
    else:
        child.signal(ending)
    while child.pid == pid:
        await asyncio.sleep(0.02)
    return ending.name, time.monotonic() - begun


async def _main(seconds: float, lines: int) -> int:
    restarts = [signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]
    async with EmbeddedFleet(Options(regions=(REGION,))) as fleet:
        outcome = await run(fleet, seconds=seconds, lines=lines, restarts=restarts)
    sys.stdout.write(f"{outcome}\n")
    return 0 if all(reader.lines == outcome.expected for reader in outcome.readers) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--lines", type=int, default=2400)
    given = parser.parse_args()
    sys.exit(asyncio.run(_main(given.seconds, given.lines)))
