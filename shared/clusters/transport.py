"""How requests reach an API server: the one seam below everything else in this package.

In production `client.RestTransport` stands here, over the Kubernetes library. A simulation puts its own in its place and so runs all code
above with a cluster in memory and a clock of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol


class Answer(Protocol):
    """An answer whose status and headers have arrived, and whose body comes with `read` or `chunks`, one of the two."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names in any case."""
        ...

    async def read(self) -> bytes:
        """The whole body. Raises OSError when the connection ends before it is whole."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes, in pieces of any size. Raises OSError when the connection breaks."""
        ...

    def close(self) -> None:
        """Let go of the answer; a connection whose body wasn't read to its end is closed. May be called twice."""
        ...


class Transport(Protocol):
    """Sends requests to one API server. It enforces no time limit: its caller cancels what takes too long."""

    async def send(self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        """Send a request; `path` is quoted, `query` is not, `body` is a JSON document or None. Raises OSError without an answer."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
