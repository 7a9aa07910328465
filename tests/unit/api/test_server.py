"""Where the server may listen, and what a cold start imports."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from shared.settings import Settings
from workers.api.server import ExposedError, NoGatewayError, check_host, check_identity
from workers.loopback import reachable_at


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_the_loopback_interface_is_fine(host):
    check_host(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.0.0.1", "8.8.8.8", "169.254.1.1", "fe80::1", "no.such.host.invalid"])
def test_any_other_is_refused_and_told_how_to_go_on(host):
    with pytest.raises(ExposedError, match="without an identity source") as refused:
        check_host(host)

    assert "GPUFLEET_API_HOST=127.0.0.1" in str(refused.value)


def test_callers_who_are_known_may_come_from_anywhere():
    check_identity(Settings(identity=("keys",)), "0.0.0.0")
    check_identity(Settings(identity=("keys", "iam")), "0.0.0.0")
    check_identity(Settings(), "127.0.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_that_nobody_could_call_does_not_start(host):
    with pytest.raises(NoGatewayError, match="GPUFLEET_IDENTITY=keys"):
        check_identity(Settings(identity=("iam",)), host)


def test_settings_of_identity(monkeypatch):
    monkeypatch.setenv("GPUFLEET_IDENTITY", " keys, iam,")
    monkeypatch.setenv("GPUFLEET_RATE_LIMIT", "none")
    assert (Settings().identity, Settings().rate_limit) == (("keys", "iam"), None)
    for name, value in {"IDENTITY": "passwords", "RATE_LIMIT": "100"}.items():
        with monkeypatch.context() as patch:
            patch.setenv(f"GPUFLEET_{name}", value)
            with pytest.raises(ValidationError, match=name.lower()):
                Settings()


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "127.0.0.1"), ("", "127.0.0.1"), ("::", "::1"), ("127.0.0.1", "127.0.0.1"), ("192.0.2.1", "192.0.2.1"), ("host", "host")],
)
def test_where_a_server_is_reached_from_its_own_machine(host, address):
    assert reachable_at(host) == address


def test_the_program_says_so_and_ends():
    ended = subprocess.run(
        [sys.executable, "-m", "workers.api"], env={"GPUFLEET_API_HOST": "0.0.0.0"}, capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 1
    assert "refusing to listen on 0.0.0.0" in ended.stderr


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("workers.api.lambda_handler", {"kubernetes", "limits", "uvicorn", "typer", "ministack", "yaml", "kubernetes_validate"}),
        ("workers.ingest.handler", {"kubernetes", "uvicorn", "typer", "ministack", "yaml", "fastapi", "starlette", "mangum"}),
        ("workers.webhooks.handler", {"kubernetes", "uvicorn", "typer", "ministack", "yaml", "fastapi", "starlette", "pyarrow"}),
    ],
)
def test_a_cold_start_imports_no_more_than_it_needs(module, unwanted):
    """`rich` is not ours to leave out: structlog and httpx import it where it is installed."""
    script = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert not unwanted & set(loaded)
