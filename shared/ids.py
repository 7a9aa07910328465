"""Identifiers: time-ordered (UUID version 7, RFC 9562) and unguessable."""

from __future__ import annotations

import re
import secrets
from typing import Protocol
from uuid import UUID

from uuid6 import uuid7

_JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Ids(Protocol):
    """Makes identifiers; a simulation gives one that is seeded."""

    def job(self) -> str:
        """A new job id: a UUID version 7 in its usual text form."""
        ...

    def nonce(self) -> str:
        """A short random text by which a writer knows its own write again; 16 hexadecimal digits."""
        ...


class RandomIds:
    """Identifiers from the operating system's randomness."""

    def job(self) -> str:
        """A new job id."""
        return str(UUID(int=uuid7().int))

    def nonce(self) -> str:
        """A new nonce."""
        return secrets.token_hex(8)


def is_job_id(text: str) -> bool:
    """Whether a text has the form of a job id; anything else can't be one and needs no look into the table."""
    return _JOB_ID.fullmatch(text) is not None
