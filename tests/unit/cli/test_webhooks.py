"""Webhooks by the command: what it sends, what it shows, and its exit codes."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.cli.conftest import FakeApi

Run = Callable[..., int]
ID = "018f5b7e-0000-7000-8000-000000000000"
JOB = "018f5b7e-1111-7000-8000-000000000000"
GCO = "/api/v1/webhooks"
WEBHOOK = f"/fleet/v1/webhooks/{ID}"
SECRET = "correct horse battery staple"
ONE = {
    "id": ID,
    "url": "https://hooks.example/x",
    "events": ["job.failed"],
    "namespace": None,
    "created_at": "2026-01-02T03:04:05Z",
    "created_by": "local",
    "signed": True,
    "rotated_at": None,
    "state": "disabled",
    "disabled_at": "2026-01-03T03:04:05Z",
    "disabled_reason": "it answered 410 (Gone)",
}
FULL = ONE | {
    "health": {
        "failures": 12,
        "failing_since": "2026-01-02T03:04:05Z",
        "strikes": 0,
        "paused_until": None,
        "last_failure_at": "2026-01-03T03:04:05Z",
        "last_failure": "answered 410",
        "last_success_at": None,
    },
    "history": [{"at": "2026-01-03T03:04:05Z", "change": "disabled", "reason": "it answered 410 (Gone)", "by": None}],
}
ATTEMPT = {"at": "2026-01-02T03:04:06Z", "status": 500, "failure": None, "text": "oops", "latency_ms": 12}
DELIVERY = {
    "message_id": f"{JOB}#7",
    "event": "job.failed",
    "namespace": "gco-jobs",
    "state": "pending",
    "reason": "answered 500",
    "attempts": 1,
    "at": "2026-01-02T03:04:05Z",
    "next_attempt_at": "2026-01-02T03:05:05Z",
    "deadline": "2026-01-03T03:04:05Z",
    "finished_at": None,
    "last_attempt": ATTEMPT,
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPUFLEET_KEY", "GPUFLEET_WEBHOOK_SECRET"):
        monkeypatch.delenv(name, raising=False)


def test_webhooks_are_listed(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/fleet/v1/webhooks", {"webhooks": [ONE], "next_cursor": "abc"})

    assert gpufleet("webhooks", "list", "--namespace", "gco-jobs") == 0

    printed = capsys.readouterr()
    assert re.search(rf"{ID} +disabled +\(all\) +job.failed +yes +https://hooks.example/x", printed.out)
    assert "--cursor abc" in printed.err
    assert dict(api.requests[0].url.params) == {"namespace": "gco-jobs", "limit": "100"}


def test_a_secret_is_made_and_is_all_that_standard_output_gets(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("POST", GCO, {"webhook": ONE}, status=201)

    assert gpufleet("webhooks", "create", "https://hooks.example/x", "-e", "job.failed", "-e", "job.completed", "-n", "gco-jobs") == 0

    printed = capsys.readouterr()
    [body] = api.bodies()
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=\n", printed.out)
    assert body == {
        "url": "https://hooks.example/x",
        "events": ["job.failed", "job.completed"],
        "namespace": "gco-jobs",
        "secret": printed.out.strip(),
    }
    assert body["secret"] not in printed.err


def test_a_secret_that_is_given_is_not_shown(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUFLEET_WEBHOOK_SECRET", SECRET)
    api.on("POST", GCO, {"webhook": ONE}, status=201)

    assert gpufleet("webhooks", "create", "https://hooks.example/x", "-e", "job.failed", "--json") == 0

    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"webhook": ONE, "secret": None}
    assert SECRET not in printed.out + printed.err
    assert api.bodies()[0]["secret"] == SECRET


def test_without_a_secret_none_is_sent(api: FakeApi, gpufleet: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFLEET_WEBHOOK_SECRET", SECRET)
    api.on("POST", GCO, {"webhook": ONE}, status=201)

    assert gpufleet("webhooks", "create", "https://hooks.example/x", "-e", "job.failed", "--unsigned") == 0

    assert api.bodies() == [{"url": "https://hooks.example/x", "events": ["job.failed"]}]


def test_a_secret_for_one_without_a_secret_is_refused(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpufleet("webhooks", "create", "https://hooks.example/x", "-e", "job.failed", "--unsigned", "--secret", SECRET) == 2

    told = capsys.readouterr()
    assert "--unsigned: must be without --secret" in told.err
    assert SECRET not in told.err + told.out
    assert api.requests == []


@pytest.mark.parametrize(
    ("command", "path", "pointer", "option"),
    [
        (("create", "https://x.example", "-e", "job.nope"), GCO, "/events/0", "-e"),
        (("create", "https://x.example", "-e", "job.failed", "-n", "x"), GCO, "/namespace", "--namespace"),
        (("create", "https://x.example", "-e", "job.failed"), GCO, "/url", "URL"),
        (("rotate", ID, "--secret", "x"), f"{WEBHOOK}/rotate", "/secret", "--secret"),
        (("rotate", ID), f"{WEBHOOK}/rotate", "/overlap_seconds", "--overlap"),
        (("disable", ID, "--reason", "x"), f"{WEBHOOK}/disable", "/reason", "--reason"),
        (("redeliver", ID, "--failed", "--since", "1h"), f"{WEBHOOK}/redeliver", "/since", "--since"),
        (("disable", ID), f"{WEBHOOK}/disable", "/other", "/other"),
    ],
    ids=lambda value: None if isinstance(value, tuple) else str(value).rpartition("/")[2],
)
def test_what_the_api_refuses_is_a_bad_option_by_its_name(
    api: FakeApi,
    gpufleet: Run,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    path: str,
    pointer: str,
    option: str,
) -> None:
    problem = {"type": "value_error", "loc": ["body"], "msg": "must be so", "input": "is", "pointer": pointer}
    api.on("POST", path, {"detail": [problem], "request_id": "0" * 32}, status=422)

    assert gpufleet("webhooks", *command) == 2

    assert f"{option}: is: must be so" in capsys.readouterr().err


def test_a_refused_url_is_a_bad_input(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("POST", GCO, {"detail": "Invalid webhook URL: must be https", "request_id": "0" * 32}, status=400)

    assert gpufleet("webhooks", "create", "http://hooks.example/x", "-e", "job.failed") == 2

    assert "Invalid webhook URL: must be https" in capsys.readouterr().err


def test_one_is_shown_with_its_health_and_history(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", WEBHOOK, FULL)

    assert gpufleet("webhooks", "show", ID) == 0

    printed = capsys.readouterr().out
    for told in ("it answered 410 (Gone)", "failures in a row  12", "the fleet", "2026-01-03 03:04:05 UTC"):
        assert told in printed


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        ({"delivered": True, "status": 204, "failure": None, "text": "", "latency_ms": 5}, 0, "taken: 204 in 5 ms\n"),
        ({"delivered": False, "status": 500, "failure": None, "text": "oops", "latency_ms": 5}, 1, "not taken: 500 in 5 ms: oops\n"),
        (
            {"delivered": False, "status": None, "failure": "timeout", "text": "no answer in time", "latency_ms": 10000},
            1,
            "not taken: timeout in 10000 ms: no answer in time\n",
        ),
    ],
)
def test_a_test_tells_what_came_of_it(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], answer: dict[str, object], code: int, told: str
) -> None:
    api.on("POST", f"{WEBHOOK}/test", answer)

    assert gpufleet("webhooks", "test", ID) == code
    assert capsys.readouterr().out == told
    assert gpufleet("webhooks", "test", ID, "--json") == code
    assert json.loads(capsys.readouterr().out) == answer


def test_deliveries_are_listed_and_one_is_shown(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", f"{WEBHOOK}/deliveries", {"deliveries": [DELIVERY], "next_cursor": None})
    api.on("GET", f"{WEBHOOK}/deliveries/{JOB}/7", DELIVERY | {"latest_attempts": [ATTEMPT]})

    assert gpufleet("webhooks", "deliveries", ID, "--state", "pending") == 0
    listed = capsys.readouterr().out
    assert gpufleet("webhooks", "deliveries", ID, f"{JOB}#7") == 0
    shown = capsys.readouterr().out

    assert re.search(rf"{JOB}#7 +job.failed +pending +1 +500 +12 +2026-01-02 03:04:05 UTC +2026-01-02 03:05:05 UTC +answered 500", listed)
    assert api.requests[0].url.params["state"] == "pending"
    assert re.search(r"2026-01-02 03:04:06 UTC +500 +12 +oops", shown)


def test_one_delivery_is_sent_again(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("POST", f"{WEBHOOK}/deliveries/{JOB}/7/redeliver", DELIVERY)

    assert gpufleet("webhooks", "redeliver", ID, f"{JOB}#7") == 0
    assert capsys.readouterr().out == f"{JOB}#7 is sent again\n"


def test_all_that_failed_are_sent_again_however_many(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("POST", f"{WEBHOOK}/redeliver", {"count": 500, "more": True}, {"count": 3, "more": False})

    assert gpufleet("webhooks", "redeliver", ID, "--failed", "--since", "6h", "--json") == 0

    assert json.loads(capsys.readouterr().out) == {"count": 503, "more": False}
    [first, second] = api.bodies()
    assert first == second
    ago = datetime.now(UTC) - datetime.fromisoformat(first["since"])
    assert timedelta(hours=6) <= ago < timedelta(hours=6, minutes=5)


def test_a_call_that_moves_nothing_is_the_last(api: FakeApi, gpufleet: Run) -> None:
    api.on("POST", f"{WEBHOOK}/redeliver", {"count": 0, "more": True})

    assert gpufleet("webhooks", "redeliver", ID, "--failed") == 0
    assert api.bodies() == [{}]


@pytest.mark.parametrize(
    "arguments",
    [
        (ID,),
        (ID, f"{JOB}#7", "--failed"),
        (ID, f"{JOB}#7", "--since", "6h"),
        (ID, "--failed", "--since", "yesterday"),
    ],
)
def test_what_is_to_be_sent_again_must_be_clear(api: FakeApi, gpufleet: Run, arguments: tuple[str, ...]) -> None:
    assert gpufleet("webhooks", "redeliver", *arguments) == 2
    assert api.requests == []


@pytest.mark.parametrize("message_id", ["x", f"{JOB}#", f"{JOB}#seven", "#7", "a/b#7", f"{JOB}#²"])
def test_what_can_be_no_delivery_is_not_found(api: FakeApi, gpufleet: Run, message_id: str) -> None:
    assert gpufleet("webhooks", "redeliver", ID, message_id) == 3
    assert api.requests == []


def test_enabled_and_disabled(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("POST", f"{WEBHOOK}/enable", FULL | {"state": "enabled"})
    api.on("POST", f"{WEBHOOK}/disable", FULL)

    assert gpufleet("webhooks", "enable", ID) == 0
    assert gpufleet("webhooks", "disable", ID, "--reason", "maintenance") == 0

    assert capsys.readouterr().out == f"webhook {ID} is enabled\nwebhook {ID} is disabled\n"
    assert api.bodies() == [{"reason": "maintenance"}]


def test_a_rotation_prints_the_new_secret_alone(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("POST", f"{WEBHOOK}/rotate", {"webhook": ONE, "secret": "whsec_new", "overlap_until": "2026-01-03T03:04:05Z"})

    assert gpufleet("webhooks", "rotate", ID) == 0

    printed = capsys.readouterr()
    assert printed.out == "whsec_new\n"
    assert "2026-01-03 03:04:05 UTC" in printed.err
    assert api.bodies() == [{"overlap_seconds": 86_400}]


@pytest.mark.parametrize(("overlap", "seconds"), [("0", 0), ("0h", 0), ("30m", 1800), ("7d", 7 * 86_400)])
def test_the_overlap_is_a_choice(api: FakeApi, gpufleet: Run, overlap: str, seconds: int) -> None:
    api.on("POST", f"{WEBHOOK}/rotate", {"webhook": ONE, "secret": None, "overlap_until": None})

    assert gpufleet("webhooks", "rotate", ID, "--overlap", overlap, "--secret", SECRET) == 0
    assert api.bodies() == [{"overlap_seconds": seconds, "secret": SECRET}]


@pytest.mark.parametrize("overlap", ["8d", "-1h", "soon"])
def test_an_overlap_that_none_may_be_is_told_with_its_rule(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], overlap: str
) -> None:
    assert gpufleet("webhooks", "rotate", ID, "--overlap", overlap) == 2

    assert f"--overlap: {overlap}: must be" in (told := capsys.readouterr().err)
    assert "at most 7d" in told
    assert api.requests == []


def test_one_is_deleted(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("DELETE", f"{GCO}/{ID}", {"message": f"Webhook '{ID}' deleted", "timestamp": "2026-01-02T03:04:05Z"})

    assert gpufleet("webhooks", "delete", ID) == 0
    assert capsys.readouterr().out == f"webhook {ID} is deleted\n"


@pytest.mark.parametrize(("status", "code"), [(404, 3), (409, 4), (403, 1), (503, 5)])
def test_exit_codes_tell_what_went_wrong(api: FakeApi, gpufleet: Run, status: int, code: int) -> None:
    api.on("POST", f"{WEBHOOK}/redeliver", {"detail": "Webhook is so", "request_id": "0" * 32}, status=status)

    assert gpufleet("webhooks", "redeliver", ID, "--failed") == code
