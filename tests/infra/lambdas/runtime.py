"""Runs a package as Lambda does: unpacked by itself, in an interpreter that sees nothing else, called with one event after the other.

Nothing may be written but under the function's own temporary folder; whatever else is opened for writing fails as on a read-only file
system. The environment is what Lambda gives, and no more.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.functions import Function
from infra.lambdas.cold import interpreter

_LONGEST_ANSWER = 32 * 1024**2
_PROGRAM = """
import importlib, json, os, sys, traceback

root, temporary, handler = sys.argv[1:4]
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def allowed(path):
    if not isinstance(path, (str, bytes, os.PathLike)):
        return True
    place = os.path.realpath(os.fsdecode(path))
    return place == temporary or place.startswith(temporary + os.sep) or place == os.devnull

def read_only(event, arguments):
    path = None
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
        path = arguments[0]
    elif event in {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.truncate"}:
        path = arguments[0]
    if path is not None and not allowed(path):
        raise OSError(30, f"Read-only file system: {path!r}")

sys.addaudithook(read_only)
sys.path.insert(0, root)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what a handler prints is its log

class Context:
    aws_request_id = "00000000-0000-4000-8000-000000000000"
    def __init__(self, milliseconds): self.milliseconds = milliseconds
    def get_remaining_time_in_millis(self): return self.milliseconds

module, _, name = handler.rpartition(".")
try:
    function = getattr(importlib.import_module(module), name)
except BaseException:
    traceback.print_exc()
    raise SystemExit(3)
for line in sys.stdin:
    asked = json.loads(line)
    try:
        answer = {"result": function(asked["event"], Context(asked["milliseconds"]))}
    except Exception as error:
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.flush()
    answers.write(json.dumps(answer) + "\\n")
    answers.flush()
"""


class FailedError(Exception):
    """The function raised, or could not even be imported; the text is what it said."""


@dataclass
class Running:
    """A container of a function."""

    process: asyncio.subprocess.Process
    milliseconds: int
    log_path: Path

    async def __call__(self, event: Mapping[str, Any]) -> Any:
        """Call it; its answer, as JSON carries it. Raises FailedError."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"event": event, "milliseconds": self.milliseconds}).encode() + b"\n")
        async with asyncio.timeout(60):
            line = await self.process.stdout.readline()
        if not line:
            raise FailedError(self.log)
        answer = json.loads(line)
        if "error" in answer:
            raise FailedError(answer["error"])
        return answer["result"]

    @property
    def log(self) -> str:
        """All that it has written to its log."""
        return self.log_path.read_text()

    def lines(self) -> list[Any]:
        """The lines of its log that are JSON."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]


@asynccontextmanager
async def container(
    function: Function, root: Path, folder: Path, environment: Mapping[str, str], *, seconds: float | None = None
) -> AsyncIterator[Running]:
    """A container of a function whose package is unpacked at `root`; `seconds` are left of each invocation."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    log_path = folder / "log"
    variables = {
        "AWS_LAMBDA_FUNCTION_NAME": f"gpufleet-{function.name}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "LAMBDA_TASK_ROOT": str(root),
        "TMPDIR": str(temporary),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "en_US.UTF-8",
        **function.environment,
        **environment,
    }
    arguments = interpreter("-c", _PROGRAM, str(root), str(temporary), function.handler)
    with log_path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            cwd=root,
            env=variables,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=32 * 1024**2,
        )
        try:
            yield Running(process, int((seconds or function.timeout_seconds) * 1000), log_path)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


def of_this_process() -> dict[str, str]:
    """Where AWS is, as the tests' environment says."""
    return {name: os.environ[name] for name in os.environ if name.startswith("AWS_ENDPOINT_URL")}
