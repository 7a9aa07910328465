"""What goes wrong between a client and an API server, on demand: refusals, lost answers, lost connections, broken watches.

No input and no output here either, so that the HTTP server and a simulation inject the same faults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from workers.local.cluster.answers import WATCH, RefusedError, Response, Stream, expired
from workers.local.cluster.cluster import SimulatedCluster
from workers.local.cluster.objects import to_json
from workers.local.cluster.parameters import is_true

Action = Literal[
    "answer", "apply_then_answer", "drop", "apply_then_drop", "delay", "watch_gone", "watch_empty", "stream_ends", "stream_breaks"
]

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Fault(BaseModel):
    """One fault for the next requests that match."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str = Field(default=".*", description="A regular expression for the whole method.")
    path: str = Field(default=".*", description="A regular expression that is searched for in the path, the query not among it.")
    action: Action = Field(
        default="answer",
        description=(
            "answer: `status`, and nothing is applied. apply_then_answer: applied, then `status`. drop: the connection breaks, nothing "
            "is applied. apply_then_drop: applied, then it breaks. delay: late, and otherwise right. watch_gone: a 410 inside a 200. "
            "watch_empty: a 200 that ends at once with nothing in it. stream_ends: a watch or a followed log ends after `lines`, as if "
            "that were all. stream_breaks: after `lines` its connection breaks, in the midst of the next one."
        ),
    )
    status: int = Field(default=500, ge=400, le=599, description="What `answer` and `apply_then_answer` answer with.")
    retry_after: int | None = Field(default=None, ge=0, description="Seconds, for the Retry-After header.")
    delay: float = Field(default=0.0, ge=0, description="Seconds before anything happens, with any action.")
    lines: int = Field(default=0, ge=0, description="How many lines `stream_ends` and `stream_breaks` let through.")
    times: int = Field(default=1, ge=1, description="How many requests it meets.")
    after: int = Field(default=0, ge=0, description="How many matching requests it lets pass first.")

    def matches(self, method: str, path: str, query: Mapping[str, str]) -> bool:
        """Whether it is about such a request; faults of watches are about watches only."""
        if self.action.startswith("watch") and not is_true(query, "watch"):
            return False
        if self.action.startswith("stream") and not (is_true(query, "watch") or is_true(query, "follow")):
            return False
        return re.fullmatch(self.method, method) is not None and re.search(self.path, path) is not None


class Faults:
    """The faults that wait for a request of theirs. Of several that match, the first one put in is met."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Fault, int]] = []

    def add(self, fault: Fault) -> None:
        """Put one in."""
        self._waiting.append((fault, 0))

    def clear(self) -> None:
        """Take all out."""
        self._waiting.clear()

    @property
    def waiting(self) -> list[Fault]:
        """Those that have not met all their requests."""
        return [fault for fault, _ in self._waiting]

    def take(self, method: str, path: str, query: Mapping[str, str]) -> Fault | None:
        """The fault that this request meets, or None. Counts the request."""
        if not self._waiting:
            return None
        for number, (fault, seen_before) in enumerate(self._waiting):
            if not fault.matches(method, path, query):
                continue
            seen = seen_before + 1
            if seen >= fault.after + fault.times:
                del self._waiting[number]
            else:
                self._waiting[number] = (fault, seen)
            if seen > fault.after:
                return fault
        return None


def answer_with(
    fault: Fault | None,
    cluster: SimulatedCluster,
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes | None,
) -> Response | Stream | None:
    """What a client gets under a fault, whose delay is over; None means that the connection breaks."""
    if fault is None or fault.action == "delay":
        return cluster.request(method, path, query, headers, body)
    if fault.action in ("stream_ends", "stream_breaks"):
        answer = cluster.request(method, path, query, headers, body)
        return CutStream(answer, lines=fault.lines, breaks=fault.action == "stream_breaks") if isinstance(answer, Stream) else answer
    if fault.action in ("watch_gone", "watch_empty"):
        return _broken_watch(gone=fault.action == "watch_gone")
    if fault.action.startswith("apply"):
        answer = cluster.request(method, path, query, headers, body)
        if isinstance(answer, Stream):
            answer.close()
    if fault.action in ("drop", "apply_then_drop"):
        return None
    reason = _REASONS.get(fault.status, "InternalError")
    return RefusedError(fault.status, reason, "a fault was injected here", retry_after=fault.retry_after).response()


def _broken_watch(*, gone: bool) -> Stream:
    stream = Stream(WATCH)
    if gone:
        error = expired("The resourceVersion for the provided watch is too old.").status()
        stream.push(to_json({"type": "ERROR", "object": error}) + b"\n")
    stream.close()
    return stream


class CutStream(Stream):
    """A stream that gives so many lines of another one, and then ends, or breaks in the midst of the next line."""

    def __init__(self, whole: Stream, *, lines: int, breaks: bool) -> None:
        super().__init__(whole.headers)
        self._whole = whole
        self._left = lines
        self._breaks = breaks
        whole.subscribe(self._move)
        self._move()

    def _move(self) -> None:
        for line in self._whole.take():
            if self._left == 0:
                self._break(line)
                return
            self._left -= 1
            self.push(line)
        if self._whole.closed or (self._left == 0 and not self._breaks):
            self.close()

    def _break(self, line: bytes) -> None:
        if self._breaks:
            self.push(line[: len(line) // 2])
            self.broken = True
        self.close()

    def close(self) -> None:
        """End both."""
        super().close()
        if not self._whole.closed:
            self._whole.close()
