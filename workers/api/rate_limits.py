"""How often one caller may ask, and how often one address may try credentials. Counted in this process alone.

The window slides: of the window before, as much counts as still lies within one length of now; so nobody gets twice the limit where two
windows meet, and a caller costs two numbers of memory. A request costs about 20 µs. Not used on Lambda, where API Gateway throttles.

What is told follows draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy: "caller";q=100;w=1` says how many (q) in how many seconds
(w), `RateLimit: "caller";r=99;t=1` how many are left (r) and in how many seconds there are more (t).
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import time
from collections import OrderedDict
from http import HTTPStatus
from typing import Final

from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.identity.callers import LOCAL, Caller
from shared.identity.sources import Presented
from workers.api.requests import refusal, tell_header

LOCAL_RATE: Final = "10000/second"
"""Of the local administrator: more than a process can answer, so it stops nothing but an endless loop."""
GUESSES: Final = "20/minute"
"""Wrong credentials of one address. A key can't be guessed at any rate; this keeps those who try from costing reads of the table."""
OPEN_RATE: Final = "100/second"
"""Of one address for what needs no caller: probes, which read the table, and the description of the API."""
_BUCKETS: Final = 1024
"""Addresses are counted in so many buckets, so that a client with a million addresses costs no more memory or time than one with two."""
_REMEMBERED: Final = 4096


class Rates:
    """The counters of a process: of callers (at `rate`, such as `100/second`; None for no limit), and of addresses."""

    def __init__(self, rate: str | None) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._local, self._open = parse(LOCAL_RATE), parse(OPEN_RATE)
        self._callers = parse(rate) if rate else None
        self.guesses = AddressGuesses(self._limiter)

    async def take(self, scope: Scope) -> Standing | None:
        """Count one request of its caller, or of its address where it needs none; None where there is no limit."""
        caller: Caller | None = scope["state"].get("caller")
        item: RateLimitItem | None
        if caller is LOCAL:
            item, who = self._local, LOCAL.name
        elif caller is not None:
            item, who = self._callers, caller.principal or caller.name
        else:
            item, who = self._open, f"open/{_bucket(scope)}"
        if item is None:
            return None
        fine = await self._limiter.hit(item, who)
        reset, remaining = await self._limiter.get_window_stats(item, who)
        return Standing(fine=fine, item=item, remaining=int(remaining), seconds=max(0, math.ceil(reset - time.time())))


class Standing:
    """How a caller stands: whether this request is within the limit, how many are left, and in how many seconds there are more."""

    __slots__ = ("fine", "item", "remaining", "seconds")

    def __init__(self, *, fine: bool, item: RateLimitItem, remaining: int, seconds: int) -> None:
        self.fine = fine
        self.item = item
        self.remaining = remaining
        self.seconds = seconds

    def tell(self, scope: Scope) -> None:
        """Put it into the headers of the answer."""
        tell_header(scope, "RateLimit-Policy", f'"caller";q={self.item.amount};w={self.item.get_expiry()}')
        tell_header(scope, "RateLimit", f'"caller";r={self.remaining};t={self.seconds}')


class RateLimits:
    """Pure ASGI: answers 429 to whoever asks too often, and tells everybody how he stands."""

    def __init__(self, app: ASGIApp, *, rates: Rates) -> None:
        self._app = app
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        standing = await self._rates.take(scope) if scope["type"] == "http" else None
        if standing is not None:
            standing.tell(scope)
            if not standing.fine:
                detail = f"this caller asks too often: the limit is {standing.item.amount} in {standing.item.get_expiry()} s"
                headers = {"Retry-After": str(max(1, standing.seconds))}
                await refusal(scope, HTTPStatus.TOO_MANY_REQUESTS, detail, headers=headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class AddressGuesses:
    """Counts wrong credentials by address. Credentials that were right lately go on from an address that has tried too many others.

    So one client that guesses locks out none of those who share its address, such as that of a proxy. Implements `identity.Guesses`.
    """

    def __init__(self, limiter: SlidingWindowCounterRateLimiter) -> None:
        self._limiter = limiter
        self._item = parse(GUESSES)
        self._right: OrderedDict[bytes, None] = OrderedDict()

    async def refused(self, scope: Scope, presented: Presented) -> float | None:
        """For how many seconds no more credentials are looked at; None where they are."""
        if presented.authorization is None or _digest(presented) in self._right:
            return None
        bucket = _bucket(scope)
        if await self._limiter.test(self._item, "guesses", bucket):
            return None
        reset, _ = await self._limiter.get_window_stats(self._item, "guesses", bucket)
        return max(1.0, reset - time.time())

    async def note(self, scope: Scope, presented: Presented, *, right: bool) -> None:
        """Credentials were right, or wrong."""
        digest = _digest(presented)
        if right:
            self._right[digest] = None
            self._right.move_to_end(digest)
            if len(self._right) > _REMEMBERED:
                self._right.popitem(last=False)
        else:
            self._right.pop(digest, None)
            await self._limiter.hit(self._item, "guesses", _bucket(scope))


def _digest(presented: Presented) -> bytes:
    return hashlib.sha256((presented.authorization or "").encode()).digest()


def _bucket(scope: Scope) -> str:
    client = scope.get("client")
    place = hashlib.sha256(network(client[0] if client else "").encode()).digest()
    return str(int.from_bytes(place[:4], "big") % _BUCKETS)


def network(address: str) -> str:
    """What one client has: an IPv4 address, or 64 bits of an IPv6 one, the least that a network gets (RFC 6177, RFC 7421)."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)
