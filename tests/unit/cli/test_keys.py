"""Keys made, listed and revoked, and how the command sends the one that it is given."""

import json
from collections.abc import Callable

import httpx
import pytest

from tests.unit.cli.conftest import FakeApi

Run = Callable[..., int]
KEYS = "/fleet/v1/keys"
JOBS = "/api/v1/queue/jobs"
SECRET = "gpf_0123456789abcdef_" + "5" * 64
ONE = {
    "id": "0123456789abcdef",
    "name": "ci",
    "rights": ["read", "submit"],
    "namespaces": ["gco-jobs"],
    "created_at": "2026-01-02T03:04:05Z",
    "created_by": "local",
    "expires_at": None,
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPUFLEET_KEY", "GPUFLEET_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)


def test_a_key_is_made_and_is_all_that_standard_output_gets(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("POST", KEYS, {**ONE, "key": SECRET}, status=201)

    assert gpufleet("keys", "create", "--name", "ci", "--may", "read, submit", "--namespaces", "gco-jobs", "--expires", "90d") == 0

    printed = capsys.readouterr()
    assert printed.out == SECRET + "\n"
    assert "not shown again" in printed.err
    assert SECRET not in printed.err
    assert api.bodies() == [
        {"name": "ci", "rights": ["read", "submit"], "namespaces": ["gco-jobs"], "expires_in_seconds": 90 * 86_400},
    ]


def test_what_is_not_said_is_not_sent(api: FakeApi, gpufleet: Run) -> None:
    api.on("POST", KEYS, {**ONE, "key": SECRET}, status=201)

    assert gpufleet("keys", "create", "--name", "ci", "--may", "read") == 0

    assert api.bodies() == [{"name": "ci", "rights": ["read"]}]


@pytest.mark.parametrize("duration", ["", "90", "d", "-1d", "0d", "1w", "1.5h", "9999999d"])
def test_a_time_that_is_none_is_bad_usage(api: FakeApi, gpufleet: Run, duration: str) -> None:
    assert gpufleet("keys", "create", "--name", "ci", "--may", "read", "--expires", duration) == 2

    assert api.requests == []


def test_keys_are_listed_with_what_they_may(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    everywhere = {**ONE, "name": "root", "namespaces": None, "expires_at": "2027-01-02T03:04:05Z"}
    api.on("GET", KEYS, {"keys": [ONE, everywhere]})

    assert gpufleet("keys", "list") == 0

    _, first, second = capsys.readouterr().out.splitlines()
    assert "read,submit in gco-jobs" in first
    assert "never" in first
    assert "read,submit in all namespaces" in second
    assert "2027-01-02" in second


def test_a_key_is_revoked_and_the_minute_is_told(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("DELETE", f"{KEYS}/ci", ONE)

    assert gpufleet("keys", "revoke", "ci") == 0

    assert "one minute" in capsys.readouterr().out


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_key_is_sent_with_every_request(api: FakeApi, gpufleet: Run, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    api.on("GET", JOBS, {"jobs": [], "count": 0, "next_cursor": None, "partial": False})
    if by == "environment":
        monkeypatch.setenv("GPUFLEET_KEY", SECRET)

    assert gpufleet("jobs", *(["--key", SECRET] if by == "option" else [])) == 0

    assert [request.headers["authorization"] for request in api.requests] == [f"Bearer {SECRET}"]


def test_without_a_key_nothing_is_sent_of_one(api: FakeApi, gpufleet: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFLEET_KEY", "")
    api.on("GET", JOBS, {"jobs": [], "count": 0, "next_cursor": None, "partial": False})

    gpufleet("jobs")

    assert "authorization" not in api.requests[0].headers


@pytest.mark.parametrize("address", ["http://fleet.example", "http://10.0.0.1:8080", "http://0.0.0.0:8080", "http://localhost.example"])
def test_a_key_is_not_sent_where_others_could_read_it(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    assert gpufleet("jobs", "--api", address, "--key", SECRET) == 2
    told = capsys.readouterr().err
    assert "must be https" in told
    assert SECRET not in told
    assert api.requests == []

    monkeypatch.setenv("GPUFLEET_ALLOW_HTTP", "1")
    api.on("GET", JOBS, {"jobs": [], "count": 0, "next_cursor": None, "partial": False})
    assert gpufleet("jobs", "--api", address, "--key", SECRET) == 0


@pytest.mark.parametrize(
    "address", ["https://fleet.example", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "http://a.localhost"]
)
def test_a_key_is_sent_over_tls_and_within_the_machine(api: FakeApi, gpufleet: Run, address: str) -> None:
    api.on("GET", JOBS, {"jobs": [], "count": 0, "next_cursor": None, "partial": False})

    assert gpufleet("jobs", "--api", address, "--key", SECRET) == 0


@pytest.mark.parametrize("key", ["two words", "gpf_\n", "schlüssel", "a" * 5000])
@pytest.mark.parametrize("as_json", [True, False])
def test_what_can_be_no_key_is_refused_and_not_shown(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], key: str, as_json: bool
) -> None:
    assert gpufleet("jobs", "--key", key, *(["--json"] if as_json else [])) == 2

    printed = capsys.readouterr()
    assert key.strip() not in printed.err + printed.out
    assert api.requests == []


def test_whoever_asks_too_often_waits_as_long_as_he_is_told(
    api: FakeApi, gpufleet: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("workers.cli.client.time.sleep", pauses.append)
    too_often = httpx.Response(429, json={"detail": "too often"}, headers={"Retry-After": "2"})
    later = httpx.Response(429, json={"detail": "too often"}, headers={"Retry-After": "86400"})
    api.on("GET", JOBS, too_often, later, {"jobs": [], "count": 0, "next_cursor": None, "partial": False})
    api.on("GET", KEYS, too_often)

    assert gpufleet("jobs") == 0
    assert pauses == [2.0, 30.0]
    assert gpufleet("keys", "list") == 5
    assert len(api.requests) == 3 + 5
    assert "too often" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "told", "code"), [(401, "gpufleet keys create makes one", 6), (403, "may not do this", 1)])
def test_whoever_is_not_known_has_an_exit_code_of_his_own_and_whoever_may_not_is_refused(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], status: int, told: str, code: int
) -> None:
    api.on("GET", JOBS, {"detail": "key:ci may not do this", "request_id": "0" * 32}, status=status)

    assert gpufleet("jobs", "--json") == code

    error = json.loads(capsys.readouterr().out)["error"]
    assert told in error["message"]
    assert error["exit_code"] == code
