"""A webhook's secrets: the one that signs, and those before it that go on signing for a while, so that its receiver can change in peace.

All are one value of Secrets Manager, newest first, each but the first with the time at which it ends. Its own two versions (AWSCURRENT and
AWSPREVIOUS) would not do: who rotates a second time, because the first answer was lost, would drop the only secret that the receiver has.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pydantic import AwareDatetime, Field, ValidationError

from shared.clock import Clock
from shared.errors import UnavailableError
from shared.jobs.model import Record
from shared.secrets import Secrets
from shared.webhooks.model import Webhook

OVERLAP: Final = timedelta(hours=24)
"""How long a secret goes on signing beside its successor, unless whoever rotates says otherwise."""
MAX_OVERLAP: Final = timedelta(days=7)
HELD: Final = 4
"""The most secrets that sign at a time: each is a signature in a header."""
FRESH: Final = timedelta(minutes=5)
"""How long secrets that were read are used without reading them again;"""
SETTLING: Final = timedelta(minutes=1)
UNSETTLED: Final = timedelta(seconds=1)
"""only so long those that were read so shortly after a rotation: the webhook's record tells of it before its secret is replaced. As old may
be the record too (`shared.webhooks.standing`), so that whatever is signed two seconds after a rotation has its new secret."""
_CACHED: Final = 2000


class Held(Record):
    """A secret, and until when it signs (None: until it is replaced)."""

    secret: str = Field(repr=False)
    until: AwareDatetime | None = None


class SecretRing(Record):
    """A webhook's secrets, newest first."""

    secrets: tuple[Held, ...] = Field(min_length=1)

    @classmethod
    def of(cls, secret: str) -> SecretRing:
        """One secret."""
        return cls(secrets=(Held(secret=secret),))

    @classmethod
    def read(cls, value: str) -> SecretRing:
        """What `written` wrote; any other value is one secret, as webhooks have it that were registered before secrets rotated."""
        try:
            return cls.model_validate_json(value)
        except ValidationError:
            return cls.of(value)

    def written(self) -> str:
        """The value that Secrets Manager keeps."""
        return self.model_dump_json(exclude_none=True)

    def signing(self, now: datetime) -> tuple[str, ...]:
        """The secrets that sign now, newest first."""
        return tuple(held.secret for held in self.secrets if held.until is None or held.until > now)

    def rotated(self, secret: str, *, now: datetime, overlap: timedelta) -> SecretRing:
        """With a new secret; those that sign now end after the overlap, or when they would have ended anyway."""
        end = now + overlap
        ending = [Held(secret=held.secret, until=min(held.until or end, end)) for held in self.secrets if held.secret != secret]
        going_on = [held for held in ending if held.until is not None and held.until > now]
        return SecretRing(secrets=(Held(secret=secret), *going_on[: HELD - 1]))


@dataclass(frozen=True, slots=True)
class _Read:
    ring: SecretRing
    at: datetime


class SigningSecrets:
    """Reads secrets to sign with, and keeps them in memory for minutes. A rotation that is in the webhook's record is seen at once."""

    def __init__(self, secrets: Secrets, clock: Clock, *, fresh: timedelta = FRESH) -> None:
        self._secrets = secrets
        self._clock = clock
        self._fresh = fresh
        self._known: OrderedDict[tuple[str, datetime | None], _Read] = OrderedDict()
        self._reading: dict[tuple[str, datetime | None], asyncio.Task[_Read]] = {}

    async def of(self, webhook: Webhook) -> Sequence[str]:
        """The secrets that sign for a webhook now, newest first; none for one that isn't signed.

        Raises UnavailableError where they can't be read and aren't known, LookupError where there are none though it is signed.
        """
        if not webhook.signed:
            return ()
        key = (webhook.id, webhook.rotated_at)
        known = self._known.get(key)
        if known is None or self._clock.now() - known.at >= self._lasts(known, webhook):
            try:
                known = await self._read_once(key, webhook.secret_name)
            except UnavailableError:
                if known is None:
                    raise
        return known.ring.signing(self._clock.now())

    def _lasts(self, known: _Read, webhook: Webhook) -> timedelta:
        unsettled = webhook.rotated_at is not None and known.at - webhook.rotated_at < SETTLING
        return UNSETTLED if unsettled else self._fresh

    async def _read_once(self, key: tuple[str, datetime | None], name: str) -> _Read:
        """Many deliveries that start at once read once."""
        reading = self._reading.get(key)
        if reading is None:
            reading = asyncio.create_task(self._read(key, name))
            self._reading[key] = reading
            reading.add_done_callback(lambda task: self._done(key, task))
        return await asyncio.shield(reading)

    async def _read(self, key: tuple[str, datetime | None], name: str) -> _Read:
        value = await self._secrets.get(name)
        if value is None:
            raise LookupError(f"the secret {name} is gone")
        found = _Read(SecretRing.read(value), self._clock.now())
        self._known[key] = found
        self._known.move_to_end(key)
        while len(self._known) > _CACHED:
            self._known.popitem(last=False)
        return found

    def _done(self, key: tuple[str, datetime | None], task: asyncio.Task[_Read]) -> None:
        del self._reading[key]
        if not task.cancelled():
            task.exception()  # seen, though nobody may be waiting for it any more
