"""The programs of this checkout and those of the last released version, as processes over one table and one cluster."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from shared.settings import Settings

ROOT = Path(__file__).parents[2]
RELEASED = Path(__file__).with_name("released.txt")
"""One line: the released version's name, and the id of its commit."""
_PARTS = ("shared", "workers", "pyproject.toml")


class MissingError(Exception):
    """The released version isn't to be had here; says why."""


def released() -> tuple[str, str]:
    """The name and the commit of the last released version."""
    name, commit = RELEASED.read_text().split()
    return name, commit


def unpack(folder: Path) -> Path:
    """The code of the released version, in a folder. Raises MissingError where this clone has not got its commit."""
    name, commit = released()
    try:
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit, *_PARTS], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingError(f"{name} ({commit}) is not in this clone; a whole one has it (git fetch --unshallow --tags)") from error
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        members.extractall(folder, filter="data")
    return folder


@dataclass
class Program:
    """A running process of one version."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    async def until_started(self, seconds: float = 30.0) -> None:
        """Wait until it says that it works."""
        async with asyncio.timeout(seconds):
            while '"started"' not in self.log.read_text():
                assert self.process.returncode is None, f"{self.name} ended:\n{self.told()}"
                await asyncio.sleep(0.05)

    async def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; gives the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(40):
            return await self.process.wait()

    def told(self) -> str:
        """The end of its log."""
        return self.log.read_text()[-4000:]


@dataclass
class Fleet:
    """Starts programs of both versions with the same settings."""

    settings: Settings
    endpoint: str
    folder: Path
    kubeconfig: Path
    old: Path
    running: list[Program] = field(default_factory=list)

    def environment(self, code: Path, **more: str) -> dict[str, str]:
        """What a program of one version is given."""
        settings = self.settings
        given = {name: value for name, value in os.environ.items() if not name.startswith(("GPUFLEET_", "AWS_"))}
        return given | {
            "PYTHONPATH": str(code),
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": settings.control_region,
            "GPUFLEET_CONTROL_REGION": settings.control_region,
            "GPUFLEET_REGIONS": ",".join(settings.regions),
            "GPUFLEET_TABLE": settings.table,
            "GPUFLEET_BUCKET": settings.bucket,
            "GPUFLEET_QUEUE_PREFIX": settings.queue_prefix,
            "GPUFLEET_KUBECONFIG": str(self.kubeconfig),
            "GPUFLEET_LEASE_SECONDS": "3",
            "GPUFLEET_SWEEP_SECONDS": "1",
            "GPUFLEET_SHUTDOWN_SECONDS": "10",
            **more,
        }

    def code(self, version: str) -> Path:
        """Where the code of a version is: `old` or `new`."""
        return self.old if version == "old" else ROOT

    async def start(self, version: str, module: str, *arguments: str, **more: str) -> Program:
        """Start `python -m workers.MODULE` of a version."""
        name = f"{version}-{module}-{len(self.running)}"
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", f"workers.{module}", *arguments),
                cwd=self.code(version),
                env=self.environment(self.code(version), **more),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        program = Program(name, process, log)
        self.running.append(program)
        return program

    async def workers(self, version: str, region: str) -> list[Program]:
        """A dispatcher and an observer of the region, a sweeper and an ingest; they work when this returns."""
        where = ("--region", region)
        programs = await asyncio.gather(
            self.start(version, "dispatcher", *where),
            self.start(version, "observer", *where),
            self.start(version, "sweeper"),
            self.start(version, "ingest"),
        )
        await asyncio.gather(*(program.until_started() for program in programs))
        return list(programs)

    async def command(self, version: str, *arguments: str) -> str:
        """Run `gpufleet ARGUMENTS` of a version; gives what it wrote."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", "from workers.cli.main import main; main()", *arguments),
            cwd=self.code(version),
            env=self.environment(self.code(version)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return output.decode()

    async def close(self) -> None:
        """End what still runs."""
        for program in self.running:
            if program.process.returncode is None:
                program.process.kill()
        await asyncio.gather(*(program.process.wait() for program in self.running))


class Door:
    """A client of the API of one version."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)

    async def until_open(self) -> None:
        """Wait until it answers."""
        async with asyncio.timeout(30):
            while True:
                try:
                    if (await self._http.get("/healthz")).is_success:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)

    async def submit(self, manifest: Mapping[str, Any], **fields: Any) -> str:
        """The id of a new job."""
        body = {"manifest": manifest, "target_region": "any", **fields}
        answer = (await self._http.post("/api/v1/queue/jobs", json=body)).raise_for_status().json()
        return str(answer["job"]["job_id"])

    async def get(self, path: str) -> Any:
        """A document."""
        return (await self._http.get(path)).raise_for_status().json()

    async def post(self, path: str, **body: Any) -> Any:
        """The answer to a request."""
        return (await self._http.post(path, json=body)).raise_for_status().json()

    async def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        (await self._http.delete(f"/api/v1/queue/jobs/{job_id}")).raise_for_status()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()
