"""Requests to API Gateway are signed; another implementation of Signature Version 4 (the emulator's) checks them."""

from collections.abc import Callable
from urllib.parse import parse_qs

import httpx
import pytest
from ministack.core import sigv4

from tests.unit.cli.conftest import FakeApi

API = "https://abc123.execute-api.eu-west-1.amazonaws.com"
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def _credentials(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token")
    monkeypatch.setenv("GPUFLEET_API", API)
    for name in ("GPUFLEET_KEY", "GPUFLEET_SIGN_REGION"):
        monkeypatch.delenv(name, raising=False)


def failure(request: httpx.Request, secret: str = SECRET) -> tuple[str, str] | None:
    """What is wrong with a request's signature; None where nothing is."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    signature = sigv4.parse_header_signature(headers)
    assert not isinstance(signature, tuple), signature
    path, _, query = request.url.raw_path.decode().partition("?")
    parameters = parse_qs(query, keep_blank_values=True)
    found: tuple[str, str] | None = sigv4.header_signature_failure(
        signature, secret, request.method, path, parameters, headers, request.content, explain=True
    )
    return found


def signature_of(request: httpx.Request) -> sigv4.HeaderSignature:
    found = sigv4.parse_header_signature({name.lower(): value for name, value in request.headers.items()})
    assert not isinstance(found, tuple), found
    return found


@pytest.mark.parametrize(
    "command",
    [
        ("jobs", "--namespace", "a b+c/ü", "--limit", "7"),
        ("job", "0197-ü x"),
        ("cancel", "0197", "--reason", "wrong data set & more"),
        ("regions", "drain", "eu-west-1", "--reason", "Wartung ü"),
    ],
    ids=["query", "path", "deletion", "body"],
)
def test_each_request_is_signed_for_its_region(api: FakeApi, gpufleet: Callable[..., int], command: tuple[str, ...]) -> None:
    gpufleet(*command)
    (request,) = api.requests
    assert failure(request) is None
    assert (signature_of(request).region, signature_of(request).service) == ("eu-west-1", "execute-api")
    assert request.headers["x-amz-security-token"] == "session-token"
    assert failure(request, "another secret") is not None


def test_what_is_changed_on_the_way_is_noticed(api: FakeApi, gpufleet: Callable[..., int]) -> None:
    gpufleet("regions", "drain", "eu-west-1", "--reason", "maintenance")
    (request,) = api.requests
    tampered = httpx.Request(request.method, request.url, headers=request.headers, content=request.content.replace(b"main", b"pain"))
    assert failure(request) is None
    assert failure(tampered) is not None


def test_a_key_goes_before_a_signature(api: FakeApi, gpufleet: Callable[..., int]) -> None:
    gpufleet("jobs", "--key", "token")
    (request,) = api.requests
    assert request.headers["authorization"] == "Bearer token"
    assert "x-amz-date" not in request.headers


def test_other_addresses_are_signed_for_where_a_region_is_named(
    api: FakeApi, gpufleet: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUFLEET_API", "https://fleet.example.com")
    gpufleet("jobs")
    monkeypatch.setenv("GPUFLEET_SIGN_REGION", "us-west-2")
    gpufleet("jobs")
    plain, signed = api.requests
    assert "authorization" not in plain.headers
    assert failure(signed) is None
    assert signature_of(signed).region == "us-west-2"


def test_a_region_that_is_none_is_told(
    api: FakeApi, gpufleet: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUFLEET_SIGN_REGION", "Frankfurt")
    assert gpufleet("jobs") == 2
    assert "GPUFLEET_SIGN_REGION" in capsys.readouterr().err
    assert api.requests == []


def test_without_credentials_it_says_so(
    api: FakeApi, gpufleet: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    assert gpufleet("jobs") == 2
    assert "AWS credentials" in capsys.readouterr().err
    assert api.requests == []
