"""The API as the command sees it: one method per request, answers as JSON objects, errors as `CommandError`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote

import httpx

from workers.cli.answers import error_of
from workers.cli.failures import CommandError, ExitCode

Json = dict[str, Any]

_QUEUE = "/api/v1/queue"
_FLEET = "/fleet/v1"
_SECONDS = httpx.Timeout(30.0, connect=5.0)
_STREAM_SECONDS = httpx.Timeout(None, connect=5.0)
"""The logs of a job that writes nothing for hours stay open."""


class FleetClient:
    """Talks to one API. Raises CommandError: what the API refuses, and that it can't be reached."""

    def __init__(self, api: str, *, transport: httpx.BaseTransport | None = None) -> None:
        self._api = api
        # No proxies from the environment: most APIs that this talks to are on this machine or in this network.
        self._http = httpx.Client(base_url=_checked(api), timeout=_SECONDS, transport=transport, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def submit(self, request: Mapping[str, Any], *, idempotency_key: str | None = None) -> tuple[Json, bool]:
        """Submit one job; its record, and whether it is new (and not the replay of an earlier submission)."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        response = self._send("POST", f"{_QUEUE}/jobs", json=dict(request), headers=headers)
        return _object(response)["job"], response.status_code == httpx.codes.CREATED

    def jobs(self, **filters: Any) -> Json:
        """One page of jobs, newest first: `jobs`, `count`, `next_cursor`, `partial`."""
        return self._get(f"{_QUEUE}/jobs", filters)

    def stats(self) -> Json:
        """Counts by region and state."""
        return self._get(f"{_QUEUE}/stats")

    def job(self, job_id: str) -> Json:
        """One job with its executions."""
        return self._get(f"{_FLEET}/jobs/{quote(job_id, safe='')}")

    def events(self, job_id: str) -> Json:
        """The history of a job."""
        return self._get(f"{_FLEET}/jobs/{quote(job_id, safe='')}/events")

    def cancel(self, job_id: str, *, reason: str | None = None) -> Json:
        """Ask for the end of a job."""
        return _object(self._send("DELETE", f"{_QUEUE}/jobs/{quote(job_id, safe='')}", params=_given({"reason": reason})))

    def logs(self, job_id: str, *, follow: bool = False, **choice: Any) -> Iterator[str]:
        """The lines that a job's containers wrote; with `follow`, as they are written, until the job ends."""
        params = _given({**choice, "follow": "true" if follow else None})
        with self._reaching():
            path, seconds = f"{_FLEET}/jobs/{quote(job_id, safe='')}/logs", _STREAM_SECONDS if follow else _SECONDS
            with self._http.stream("GET", path, params=params, timeout=seconds) as response:
                if response.is_error:
                    raise error_of(response.status_code, response.read())
                yield from response.iter_lines()

    def rejections(self, **filters: Any) -> Json:
        """One page of rejections, newest first."""
        return self._get(f"{_FLEET}/rejections", filters)

    def rejection(self, rejection_id: str) -> Json:
        """One rejection."""
        return self._get(f"{_FLEET}/rejections/{quote(rejection_id, safe='')}")

    def dead_letter_queues(self) -> Json:
        """The queues, and how many dead letters each has."""
        return self._get(f"{_FLEET}/dead-letters")

    def dead_letters(self, queue: str, **filters: Any) -> Json:
        """The dead letters of a queue."""
        return self._get(f"{_FLEET}/dead-letters/{quote(queue, safe='')}", filters)

    def dead_letter(self, queue: str, message_id: str) -> Json:
        """One dead letter with its body."""
        return self._get(f"{_FLEET}/dead-letters/{quote(queue, safe='')}/{quote(message_id, safe='')}")

    def settle(self, queue: str, verb: str, message_ids: Sequence[str] | None) -> Json:
        """`redrive` or `discard` dead letters by their ids; None means all."""
        body = {"all": True} if message_ids is None else {"message_ids": list(message_ids)}
        return _object(self._send("POST", f"{_FLEET}/dead-letters/{quote(queue, safe='')}/{verb}", json=body))

    def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Json:
        return _object(self._send("GET", path, params=_given(params or {})))

    def _send(self, method: str, path: str, **parts: Any) -> httpx.Response:
        with self._reaching():
            response = self._http.request(method, path, **parts)
        if response.is_error:
            raise error_of(response.status_code, response.content)
        return response

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            hint = "is it running? (gpufleet up starts one; --api or GPUFLEET_API names another)"
            raise CommandError(f"no answer from {self._api}: {error or type(error).__name__}; {hint}", code=ExitCode.UNREACHABLE) from error


def _checked(api: str) -> str:
    try:
        url = httpx.URL(api)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise CommandError(f"--api: {api!r}: must be a URL such as http://127.0.0.1:8080", code=ExitCode.USAGE)
    return api


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _object(response: httpx.Response) -> Json:
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandError(f"{response.url} answered with something else than a JSON object; is it the API of a gpufleet?")
    return document
