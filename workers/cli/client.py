"""The API as the command sees it: one method per request, answers as JSON objects, errors as `CommandError`."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import quote

import httpx
from httpx_sse import EventSource

from workers.cli.answers import error_of, no_fleet
from workers.cli.failures import CommandError, ExitCode
from workers.cli.signing import signing_for
from workers.loopback import is_local_name

Json = dict[str, Any]

_QUEUE = "/api/v1/queue"
_FLEET = "/fleet/v1"
_SECONDS = httpx.Timeout(30.0, connect=5.0)
_EVENT_SECONDS = httpx.Timeout(60.0, connect=5.0)
"""A log that is followed is kept alive every 15 seconds, so that one of which nothing comes any more is broken."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,4096}=*")
"""What a bearer token is made of (RFC 6750, section 2.1)."""
_ALLOW_HTTP = "GPUFLEET_ALLOW_HTTP"
_TRIES = 5
"""How often a request is sent that comes too early for the API's rate limit."""
_LONGEST_PAUSE = 30.0
_LONGEST_ID = 1024
_LONGEST_HOST = 253
_LAST_PORT = 65535


class LogEvent(NamedTuple):
    """One event of a log that is followed: `message` for a line, `container`, `notice`, `end`, or `open` when the stream begins."""

    kind: str
    data: Json
    position: str | None


class FleetClient:
    """Talks to one API. Raises CommandError: what the API refuses, what can't be asked, and that it can't be reached."""

    options_only: ClassVar[bool] = False
    """Whether all that is ever sent are a command's options and arguments, so that what is refused of them is bad usage."""

    def __init__(self, api: str, key: str | None = None, *, transport: httpx.BaseTransport | None = None) -> None:
        self._api = api
        self._answered: str | None = None
        # No proxies from the environment: most APIs that this talks to are on this machine or in this network.
        self._http = httpx.Client(
            base_url=_checked(api),
            headers=_credentials(api, key),
            auth=signing_for(api, key),
            timeout=_SECONDS,
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def submit(self, request: Mapping[str, Any], *, idempotency_key: str | None = None) -> tuple[Json, bool]:
        """Submit one job; its record, and whether it is new (and not the replay of an earlier submission)."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        response = self._send("POST", f"{_QUEUE}/jobs", json=dict(request), headers=headers)
        return self._object(response, job=dict)["job"], response.status_code == httpx.codes.CREATED

    def jobs(self, **filters: Any) -> Json:
        """One page of jobs, newest first: `jobs`, `count`, `next_cursor`, `partial`."""
        return self._get(f"{_QUEUE}/jobs", filters, jobs=list)

    def policy(self) -> Json:
        """The policy that the API enforces: `policy`, `cluster_enforcement` by namespace."""
        return self._get("/api/v1/policy", policy=dict, cluster_enforcement=dict)

    def stats(self) -> Json:
        """Counts by region and state."""
        return self._get(f"{_QUEUE}/stats", by_region=dict)

    def health(self) -> Json:
        """The fleet's own health."""
        return self._get(f"{_FLEET}/health", regions=list, queues=list, loops=list, unread=dict)

    def job(self, job_id: str) -> Json:
        """One job with its executions."""
        return self._get(f"{_FLEET}/jobs/{segment('Job', job_id)}", id=str, state=str)

    def events(self, job_id: str) -> Json:
        """The history of a job."""
        return self._get(f"{_FLEET}/jobs/{segment('Job', job_id)}/events", events=list)

    def cancel(self, job_id: str, *, reason: str | None = None) -> Json:
        """Ask for the end of a job."""
        return self._object(self._send("DELETE", f"{_QUEUE}/jobs/{segment('Job', job_id)}", params=_given({"reason": reason})))

    def logs(self, job_id: str, **choice: Any) -> Iterator[str]:
        """The lines that a job's containers wrote, as they stand."""
        request = self._request("GET", f"{_FLEET}/jobs/{segment('Job', job_id)}/logs", params=_given(choice))
        with self._streaming(request, "text/plain") as response:
            yield from _lines(response)

    def log_events(self, job_id: str, *, after: str | None = None, **choice: Any) -> Iterator[LogEvent]:
        """What a job's containers write, as it is written; behind a position, or from the beginning. The last event is `end`.

        An event without data tells that the API has answered.
        """
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after is not None else {})
        params = _given({**choice, "follow": "true"})
        request = self._request("GET", f"{_FLEET}/jobs/{segment('Job', job_id)}/logs", params=params, headers=headers)
        request.extensions["timeout"] = _EVENT_SECONDS.as_dict()
        with self._streaming(request, "text/event-stream") as response:
            yield LogEvent("open", {}, None)
            for event in EventSource(response).iter_sse():
                if event.data:  # comments that keep the connection alive have none
                    yield LogEvent(event.event, self._data(event.data), event.id or None)

    def _data(self, text: str) -> Json:
        try:
            data = json.loads(text)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise no_fleet(self._api, "it sent an event that is no JSON object")
        return data

    @contextmanager
    def _streaming(self, request: httpx.Request, content_type: str) -> Iterator[httpx.Response]:
        """An answer whose body is read as it comes."""
        with self._reaching():
            response = self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise error_of(response.status_code, response.read(), api=self._api)
                if not response.headers.get("content-type", "").startswith(content_type):
                    raise no_fleet(self._api, "it answered with something else than a log")
                yield response
            finally:
                response.close()

    def regions(self) -> Json:
        """All regions: whether each takes jobs, and what it has of them."""
        return self._get(f"{_FLEET}/regions", regions=list)

    def drain(self, region: str, wanted: Mapping[str, Any]) -> Json:
        """Drain a region; the region as it then is."""
        return self._object(self._send("POST", f"{_FLEET}/regions/{segment('Region', region)}/drain", json=dict(wanted)), region=str)

    def resume(self, region: str, wanted: Mapping[str, Any]) -> Json:
        """Resume a region; the region as it then is."""
        return self._object(self._send("POST", f"{_FLEET}/regions/{segment('Region', region)}/resume", json=dict(wanted)), region=str)

    def create_key(self, wanted: Mapping[str, Any]) -> Json:
        """Make a key; the answer has its text, once."""
        return self._object(self._send("POST", f"{_FLEET}/keys", json=dict(wanted)), key=str, id=str)

    def keys(self) -> Json:
        """All keys, without their texts."""
        return self._get(f"{_FLEET}/keys", keys=list)

    def revoke_key(self, key: str) -> Json:
        """Revoke a key, by its name or its id."""
        return self._object(self._send("DELETE", f"{_FLEET}/keys/{segment('Key', key)}"), id=str)

    def rejections(self, **filters: Any) -> Json:
        """One page of rejections, newest first."""
        return self._get(f"{_FLEET}/rejections", filters, rejections=list)

    def rejection(self, rejection_id: str) -> Json:
        """One rejection."""
        return self._get(f"{_FLEET}/rejections/{segment('Rejection', rejection_id)}")

    def dead_letter_queues(self) -> Json:
        """The queues, and how many dead letters each has."""
        return self._get(f"{_FLEET}/dead-letters", queues=list)

    def dead_letters(self, queue: str, **filters: Any) -> Json:
        """The dead letters of a queue."""
        return self._get(f"{_FLEET}/dead-letters/{segment('Queue', queue)}", filters, dead_letters=list)

    def dead_letter(self, queue: str, message_id: str) -> Json:
        """One dead letter with its body."""
        return self._get(f"{_FLEET}/dead-letters/{segment('Queue', queue)}/{segment('Dead letter', message_id)}", id=str)

    def settle(self, queue: str, verb: str, message_ids: Sequence[str] | None) -> Json:
        """`redrive` or `discard` dead letters by their ids; None means all."""
        body = {"all": True} if message_ids is None else {"message_ids": list(message_ids)}
        return self._object(self._send("POST", f"{_FLEET}/dead-letters/{segment('Queue', queue)}/{verb}", json=body))

    def _get(self, path: str, params: Mapping[str, Any] | None = None, **expected: type) -> Json:
        return self._object(self._send("GET", path, params=_given(params or {})), **expected)

    def _send(self, method: str, path: str, **parts: Any) -> httpx.Response:
        request = self._request(method, path, **parts)
        for patience in reversed(range(_TRIES)):
            with self._reaching():
                response = self._http.send(request)
            if response.status_code != httpx.codes.TOO_MANY_REQUESTS or not patience:
                break
            time.sleep(_pause(response))  # nothing was done with it, so it can be asked again whatever it is
        self._answered = response.headers.get("date")
        if not response.is_success:
            options_only = method == "GET" or self.options_only
            raise error_of(response.status_code, response.content, api=self._api, options_only=options_only)
        return response

    def asked_at(self) -> datetime:
        """When the API gave its last answer, by its own clock, to the second; by this machine's where it didn't say."""
        try:
            return parsedate_to_datetime(self._answered or "")
        except ValueError:
            return datetime.now(UTC)

    def _request(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **parts: Any) -> httpx.Request:
        """The one place where requests are made, and so where what no request can carry is told as the fault of its sender."""
        for name, value in (headers or {}).items():
            if not (value.isascii() and value.isprintable()) or value != value.strip():
                raise CommandError.at(name, value, "must be printable ASCII without spaces at its ends, as it is sent in a header")
        try:
            return self._http.build_request(method, path, headers=headers, **parts)
        except (ValueError, httpx.InvalidURL) as error:  # UnicodeError is one: a lone surrogate; so is a number that JSON has not
            raise CommandError(f"this can't be sent: {error}", code=ExitCode.USAGE) from error

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (UnicodeError, OverflowError) as error:  # of the resolver, about names with empty or overlong parts
            raise _no_address(self._api) from error
        except httpx.HTTPError as error:
            hint = "is it running? (gpufleet up starts one; --api or GPUFLEET_API names another)"
            raise CommandError(f"no answer from {self._api}: {error or type(error).__name__}; {hint}", code=ExitCode.UNREACHABLE) from error

    def _object(self, response: httpx.Response, **expected: type) -> Json:
        """The JSON object of an answer, with at least the fields that are expected of it."""
        try:
            document = response.json()
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise no_fleet(self._api, "it answered with something else than a JSON object")
        missing = [name for name, kind in expected.items() if not isinstance(document.get(name), kind)]
        if missing:
            raise no_fleet(self._api, f"its answer has no {' and no '.join(missing)}")
        return document


def _checked(api: str) -> str:
    try:
        url = httpx.URL(api)
        host = url.raw_host.decode()
        fine = url.scheme in {"http", "https"} and 0 < len(host) <= _LONGEST_HOST and (url.port is None or 0 < url.port <= _LAST_PORT)
        fine = fine and not url.query and not url.fragment
    except httpx.InvalidURL:
        fine = False
    if not fine:
        raise _no_address(api)
    return api


def _pause(response: httpx.Response) -> float:
    """The seconds that an answer asks to wait, as far as anybody at a terminal would."""
    asked = response.headers.get("retry-after", "")
    return min(float(asked), _LONGEST_PAUSE) if asked.isdigit() else 1.0


def _credentials(api: str, key: str | None) -> dict[str, str]:
    """The header of a key. Raises CommandError for what can be none, and where anybody on the way could read it. Never shows it."""
    if not key:
        return {}
    if not _TOKEN.fullmatch(key):
        raise CommandError("--key: must be one word as `gpufleet keys create` prints it", code=ExitCode.USAGE)
    url = httpx.URL(api)
    if url.scheme != "https" and not is_local_name(url.host) and os.environ.get(_ALLOW_HTTP) != "1":
        rule = f"must be https where a key is sent, which anybody on the way could read; {_ALLOW_HTTP}=1 allows it in a network you trust"
        raise CommandError.at("--api", api, rule)
    return {"Authorization": f"Bearer {key}"}


def _no_address(api: str) -> CommandError:
    return CommandError.at("--api", api, "must be a URL such as http://127.0.0.1:8080")


def segment(kind: str, name: str) -> str:
    """A name as one part of a path. What can't be one, there is no such thing of; a server would take it for another path."""
    if name in {"", ".", ".."} or "/" in name or not name.isprintable() or len(name) > _LONGEST_ID:
        shown = name if len(name) <= _LONGEST_ID else f"{name[:60]}…"
        raise CommandError(f"{kind} '{shown}' not found: this can't be an id", code=ExitCode.NOT_FOUND)
    return quote(name, safe="")


def _lines(response: httpx.Response) -> Iterator[str]:
    """Lines end with a newline and nothing else: a carriage return moves within one, as progress bars do."""
    held = ""
    for text in response.iter_text():
        *lines, held = (held + text).split("\n")
        yield from lines
    if held:
        yield held


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}
