"""Where the server may listen, and what a cold start imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workers.api.server import ExposedError, check_host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_the_loopback_interface_is_fine(host):
    check_host(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.0.0.1", "8.8.8.8", "169.254.1.1", "fe80::1", "no.such.host.invalid"])
def test_any_other_is_refused_and_told_how_to_go_on(host):
    with pytest.raises(ExposedError, match="without an identity source") as refused:
        check_host(host)

    assert "GPUFLEET_API_HOST=127.0.0.1" in str(refused.value)


def test_the_program_says_so_and_ends():
    ended = subprocess.run(
        [sys.executable, "-m", "workers.api"], env={"GPUFLEET_API_HOST": "0.0.0.0"}, capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 1
    assert "refusing to listen on 0.0.0.0" in ended.stderr


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("workers.api.lambda_handler", {"kubernetes", "uvicorn", "typer", "ministack", "yaml", "kubernetes_validate"}),
        ("workers.ingest.handler", {"kubernetes", "uvicorn", "typer", "ministack", "yaml", "fastapi", "starlette", "mangum"}),
    ],
)
def test_a_cold_start_imports_no_more_than_it_needs(module, unwanted):
    """`rich` is not ours to leave out: structlog and httpx import it where it is installed."""
    script = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert not unwanted & set(loaded)
