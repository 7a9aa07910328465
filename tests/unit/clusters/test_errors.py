"""Answers of an API server as errors: what passes, what never will, and no secrets in either."""

import json
from datetime import UTC, datetime

import pytest

from shared.clusters.errors import (
    ExpiredError,
    MissingError,
    QuotaError,
    RejectedError,
    TakenError,
    ThrottledError,
    UnauthorizedError,
    failure,
)
from shared.errors import UnavailableError
from shared.jobs.ports import RefusedError

NOW = datetime(2026, 5, 17, 12, 0, 0, tzinfo=UTC)


def answer(code, message="no", *, headers=None, **status):
    body = json.dumps({"kind": "Status", "code": code, "message": message, **status}).encode()
    return failure("POST /jobs", code, headers or {}, body, now=NOW)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, RejectedError),
        (401, UnauthorizedError),
        (403, RejectedError),
        (404, MissingError),
        (405, RejectedError),
        (408, UnavailableError),
        (409, TakenError),
        (410, ExpiredError),
        (413, RejectedError),
        (415, RejectedError),
        (422, RejectedError),
        (429, ThrottledError),
        (500, UnavailableError),
        (502, UnavailableError),
        (503, UnavailableError),
        (504, UnavailableError),
        (302, UnavailableError),
    ],
)
def test_each_status_has_its_error(code, kind):
    error = answer(code, "in the server's words", reason="Word")
    assert type(error) is kind
    assert str(error) == "POST /jobs: in the server's words"


def test_a_rejection_is_a_refusal_with_the_machine_readable_parts():
    error = answer(422, reason="Invalid")
    assert isinstance(error, RefusedError)
    assert (error.code, error.reason) == (422, "Invalid")


def test_a_quota_that_is_used_up_passes_with_time():
    error = answer(403, 'jobs.batch "x" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1, used: 5, limited: 5')
    assert isinstance(error, QuotaError)
    assert isinstance(error, UnavailableError)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("86400", 300.0),
        ("Sun, 17 May 2026 12:00:30 GMT", 30.0),
        ("Sun, 17 May 2026 11:00:00 GMT", 0.0),
        ("soon", None),
    ],
)
@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_is_seconds_or_a_date(code, name, asked, seconds):
    assert answer(code, headers={name: asked}).retry_after == seconds


def test_a_status_may_say_when_to_come_again():
    assert answer(504, details={"retryAfterSeconds": 3}).retry_after == 3
    assert answer(504, details={}).retry_after is None


@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b"[1]", b'{"error": "proxy"}', b"\xff"])
def test_a_page_of_a_proxy_says_no_more_than_its_status(body):
    error = failure("GET /jobs", 502, {}, body, now=NOW)
    assert isinstance(error, UnavailableError)
    assert str(error) == "GET /jobs: HTTP 502"


def test_a_message_is_cut():
    assert len(str(answer(422, "x" * 5000))) == len("POST /jobs: ") + 500


def test_values_don_t_reach_the_message():
    template = 'spec.template: Invalid value: core.PodTemplateSpec{Env:[]core.EnvVar{{Name:"TOKEN", Value:"hunter2"}}}: field is immutable'
    assert str(answer(422, f'Job.batch "x" is invalid: {template}')).endswith("spec.template: Invalid value: {…}: field is immutable")
    assert "k" * 65 not in str(answer(422, f'metadata.labels: Invalid value: "{"k" * 65}": must be no more than 63 characters'))
    assert "kept" in str(answer(422, 'spec.x: Invalid value: "kept": no'))


def test_nothing_of_a_secret_is_repeated():
    error = answer(
        422, 'Secret "s" is invalid: data[k]: Invalid value: "hunter2"', reason="Invalid", details={"kind": "Secret", "name": "s"}
    )
    assert str(error) == "POST /jobs: Secret s: Invalid"


def test_an_undeclared_field_in_an_apply_is_refused_for_ever_though_the_server_calls_it_its_own_fault():
    message = "failed to create typed patch object (ml/a; /v1, Kind=Service): .spec.x: field not declared in schema"

    assert isinstance(answer(500, message), RejectedError)
