"""A transport that answers from a script, for the answers that no server gives on demand."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any


class ScriptedAnswer:
    def __init__(self, *chunks: bytes, status: int = 200, headers: Mapping[str, str] | None = None, error: Exception | None = None) -> None:
        self.status = status
        self.headers = headers or {}
        self.closed = False
        self._chunks = chunks
        self._error = error

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self.closed = True


class ScriptEndedError(BaseException):
    """Everything was played; ends a feed, which nothing else does."""


class ScriptedTransport:
    """Gives one answer after the other and notes the queries."""

    def __init__(self, *answers: ScriptedAnswer | Exception) -> None:
        self._answers = list(answers)
        self.queries: list[Mapping[str, str]] = []
        self.closed = False

    async def send(self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> ScriptedAnswer:
        self.queries.append(dict(query))
        if not self._answers:
            raise ScriptEndedError
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


def document(value: Any, **options: Any) -> ScriptedAnswer:
    return ScriptedAnswer(json.dumps(value).encode(), **options)


def event(kind: str, name: str, version: int) -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}).encode() + b"\n"


def listed(version: int, *names: str, more: str | None = None) -> ScriptedAnswer:
    items = [{"metadata": {"name": name}} for name in names]
    return document({"metadata": {"resourceVersion": str(version), **({"continue": more} if more else {})}, "items": items})
