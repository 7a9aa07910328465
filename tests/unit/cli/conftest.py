"""The command over an API that answers what a test wants."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from workers.cli import client as client_module
from workers.cli.main import run


class FakeApi:
    """Answers by method and path; the last answer of a path repeats. What was asked is in `requests`."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self._answers: dict[tuple[str, str], list[httpx.Response | Exception]] = {}

    def on(self, method: str, path: str, *documents: Any, status: int = 200) -> None:
        answers = [httpx.Response(status, json=one) if isinstance(one, dict) else one for one in documents]
        self._answers.setdefault((method, path), []).extend(answers)

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answers = self._answers.get((request.method, request.url.path))
        if not answers:
            return httpx.Response(404, json={"detail": "Not Found"})
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content, headers=_headers(answer))

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests if request.content]


def _headers(answer: httpx.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in ("content-type", "retry-after") if name in answer.headers}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    real = httpx.Client

    def make(**options: Any) -> httpx.Client:
        return real(**{**options, "transport": httpx.MockTransport(fake.handle)})

    monkeypatch.setattr(client_module.httpx, "Client", make)
    monkeypatch.delenv("GPUFLEET_API", raising=False)
    return fake


@pytest.fixture
def gpufleet() -> Callable[..., int]:
    """Runs a command; gives its exit code."""
    return lambda *arguments: run(list(arguments))


def job(number: int = 1, status: str = "queued", **more: Any) -> dict[str, Any]:
    """A record as the job queue's door gives it."""
    return {
        "job_id": f"job-{number}",
        "job_name": "train",
        "target_region": "us-east-1",
        "namespace": "gco-jobs",
        "status": status,
        "priority": 0,
        "submitted_at": "2026-01-02T03:04:05Z",
        **more,
    }


def detail(status: str, *, revision: int = 1, **more: Any) -> dict[str, Any]:
    """A record as the fleet's own door gives it."""
    return {"id": "job-1", "name": "train", "region": "us-east-1", "state": status, "revision": revision, **more}
