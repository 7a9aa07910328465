"""Static bearer keys: their form, what is kept of them, and the source that knows callers by them.

A key is `gpf_<id>_<secret>`: a prefix that scanners for leaked secrets can look for, 64 bits that find its record, and 256 random bits.
Only the SHA-256 of the secret is kept. That is enough: a slow hash protects what people choose, and a random secret of at least 112 bits
can't be found by trying (NIST SP 800-63B, section 5.1.2.2, on look-up secrets).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from pydantic import AwareDatetime

from shared.clock import Clock
from shared.identity.callers import Caller, Right
from shared.identity.sources import Presented, UnknownCallerError
from shared.jobs.model import Record

PREFIX: Final = "gpf_"
NAME: Final = "^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
"""The grammar of a key's name; an id has the same."""
CACHE_SECONDS: Final = 45.0
"""How long a process may go on with what it has read of a key. A revocation takes effect everywhere within a minute: answers that go on
ask again from time to time only."""
_CACHED: Final = 4096
_KEY = re.compile(r"gpf_([0-9a-f]{16})_([0-9a-f]{64})")
_REFUSED = "the API key is not valid: it is unknown, was revoked or has expired"
"""One text for all, so that nobody learns which part of a guess was right."""


class ApiKey(Record):
    """What is kept of a key. `namespaces` None means all; `digest` is the SHA-256 of its secret in hexadecimal digits."""

    id: str
    name: str
    rights: frozenset[Right]
    namespaces: frozenset[str] | None = None
    digest: str
    created_at: AwareDatetime
    created_by: str
    expires_at: AwareDatetime | None = None

    @property
    def caller(self) -> Caller:
        """Who calls with this key."""
        return Caller(name=f"key:{self.name}", rights=self.rights, namespaces=self.namespaces)

    def holds(self, now: datetime) -> bool:
        """Whether it is taken at a time: until it expires."""
        return self.expires_at is None or now < self.expires_at

    def administers(self, now: datetime) -> bool:
        """Whether its owner can then make every other key."""
        return self.holds(now) and Right.ADMIN in self.rights and self.namespaces is None


class ApiKeyReader(Protocol):
    """Finds keys by their ids."""

    async def get(self, key_id: str) -> ApiKey | None:
        """The key of an id. Raises UnavailableError."""
        ...


def new_key() -> tuple[str, str, str]:
    """A fresh key as (id, text, digest of its secret). The text is for its owner's eyes, once."""
    key_id, secret = secrets.token_hex(8), secrets.token_hex(32)
    return key_id, f"{PREFIX}{key_id}_{secret}", digest_of(secret)


def digest_of(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


class KeySource:
    """Knows callers by static keys: one consistent read of the table by the key's id, remembered for a while, whatever it found."""

    expects = f"an API key, sent as 'Authorization: Bearer {PREFIX}…'"

    def __init__(
        self, keys: ApiKeyReader, clock: Clock, *, seconds: float = CACHE_SECONDS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._seconds = seconds
        self._now = now
        self._known: _Remembered = OrderedDict()
        self._unknown: _Remembered = OrderedDict()
        self._reading: dict[str, asyncio.Task[ApiKey | None]] = {}

    async def identify(self, presented: Presented) -> Caller | None:
        """The caller whose key this is; None for any other kind of credentials. Raises UnknownCallerError, UnavailableError."""
        token = presented.bearer
        if token is None or not token.startswith(PREFIX):
            return None
        found = _KEY.fullmatch(token)
        if found is None:
            raise UnknownCallerError(_REFUSED, wrong=True)
        key_id, secret = found.groups()
        key = await self._key(key_id)
        holds = hmac.compare_digest(digest_of(secret), key.digest if key is not None else "0" * 64)
        if key is None or not holds or not key.holds(self._clock.now()):
            raise UnknownCallerError(_REFUSED, wrong=True)
        return key.caller

    async def _key(self, key_id: str) -> ApiKey | None:
        """What the table says or said lately. Of many requests with one key, one reads and the others wait for it."""
        for remembered in (self._known, self._unknown):
            if key_id in remembered and remembered[key_id][0] > self._now():
                return remembered[key_id][1]
        reading = self._reading.get(key_id)
        if reading is None:
            reading = self._reading[key_id] = asyncio.create_task(self._read(key_id))
            reading.add_done_callback(lambda done: self._has_read(key_id, done))
        return await asyncio.shield(reading)

    def _has_read(self, key_id: str, done: asyncio.Task[ApiKey | None]) -> None:
        self._reading.pop(key_id, None)
        if not done.cancelled():
            done.exception()  # looked at, also where every request that waited for it has gone

    async def _read(self, key_id: str) -> ApiKey | None:
        key = await self._keys.get(key_id)
        # Apart from one another, so that a flood of ids that don't exist drives out no key that does.
        remembered, other = (self._unknown, self._known) if key is None else (self._known, self._unknown)
        other.pop(key_id, None)
        remembered[key_id] = (self._now() + self._seconds, key)
        remembered.move_to_end(key_id)
        while len(remembered) > _CACHED:
            remembered.popitem(last=False)
        return key


_Remembered = OrderedDict[str, tuple[float, ApiKey | None]]
