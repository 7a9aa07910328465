"""Every fact is one line of JSON, whatever is in it and whoever says it."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = r"""
import asyncio, logging, structlog
from shared.logging import configure

configure("INFO", worker="api")
log = structlog.get_logger()
log.info("request", path="/a\nb\r\u2028\x00\ud800", number=1)
log.debug("too much")
try:
    raise ValueError("two\nlines")
except ValueError:
    log.exception("failed")
    logging.getLogger("botocore").exception("a library failed")
logging.getLogger("uvicorn.error").info("too much of a library")


async def nobody_waits():
    async def fails():
        raise RuntimeError("unseen")
    asyncio.ensure_future(fails())
    await asyncio.sleep(0.01)

asyncio.run(nobody_waits())
import gc; gc.collect()
"""


def test_each_fact_is_one_line_of_json():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.split("\n") if line]

    assert [line["event"] for line in lines[:3]] == ["request", "failed", "a library failed"]
    assert "never retrieved" in lines[3]["event"]
    assert {line["worker"] for line in lines[:3]} == {"api"}
    assert lines[0]["path"].startswith("/a\nb")
    assert all("two\nlines" in line["exception"] for line in lines[1:3])
    assert [line["level"] for line in lines] == ["info", "error", "error", "error"]
    assert done.stdout == ""
