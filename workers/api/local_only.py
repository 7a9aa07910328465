"""What a browser of this machine may be made to do by pages of others, where everybody who reaches the API is its administrator.

A page can have its own name resolve to 127.0.0.1 and then reads and writes as if the API were its own server (DNS rebinding); what it can't
choose is the Host header, which has that name. And it can send some requests without being allowed to read the answers; browsers mark
those: by `Origin`, which is the page's, and by Fetch Metadata (`Sec-Fetch-Site`; another port of this machine is `same-site`). Programs
send neither. With an identity source there is nothing to protect: no browser adds a key by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from workers.api.requests import refusal
from workers.loopback import is_local_name

_FOREIGN: Final = frozenset({b"cross-site", b"same-site"})
_PAGE: Final = b"document"
_ELSEWHERE: Final = "a page of another origin sent this; without an identity source only this machine's own programs may"


class LocalOnly:
    """Pure ASGI: refuses requests for other hosts than this machine, and those that pages of other sites send."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and (why := _refused(scope)) is not None:
            await refusal(scope, *why)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refused(scope: Scope) -> tuple[HTTPStatus, str] | None:
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"localhost").decode("latin-1")  # HTTP/1.0 has none; every browser sends one
    if not is_local_name(_name(host)):
        rule = "without an identity source this API answers as 127.0.0.1, [::1] or localhost only; GPUFLEET_IDENTITY=keys is one"
        return HTTPStatus.MISDIRECTED_REQUEST, f"not for the host '{host}': {rule}"
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() != f"{scope['scheme']}://{host}".lower():
        return HTTPStatus.FORBIDDEN, _ELSEWHERE
    if headers.get(b"sec-fetch-site") in _FOREIGN and not _follows_a_link(scope["method"], headers):
        return HTTPStatus.FORBIDDEN, _ELSEWHERE
    return None


def _follows_a_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser goes to a page of this API: what comes stands for itself, and the page with the link doesn't get to read it."""
    return method == "GET" and headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest", _PAGE) == _PAGE


def _name(host: str) -> str:
    """The name in a Host header, without its port and the brackets of an IPv6 address (RFC 9110, section 7.2)."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
