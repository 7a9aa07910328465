"""Where a follower of a Job's logs stands, as a short text that any other process can go on from.

It goes over the wire with every line, so it is packed, and it forgets what it can: the containers of pods that have ended before all others
are told by one number, the second until which every pod has been shown to its end.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from shared.clusters.log_lines import Mark
from shared.errors import InvalidError, Problem

Key = bytes

_VERSION: Final = 1
_KEY: Final = 6
"""Bytes by which a container is known; two of a thousand containers have the same once in a billion Jobs."""
_HEAD: Final = struct.Struct(f">B{_KEY}sIIQ")
_ENTRY: Final = struct.Struct(f">{_KEY}sQI")
LONGEST: Final = 48 * 1024
"""Characters of a position; HTTP servers take some 64 KiB of headers."""


def job_key(uid: str) -> Key:
    """By what a Job is known in a position."""
    return blake2b(uid.encode(), digest_size=_KEY).digest()


def container_key(pod: str, container: str) -> Key:
    """By what a container of a Job is known in a position. Names of a Job's pods end in chance, so that none comes twice."""
    return blake2b(f"{pod}/{container}".encode(), digest_size=_KEY).digest()


@dataclass(kw_only=True, slots=True)
class Position:
    """Where a follower stands.

    `job` is the key of the Job. Pods made in the second `begun` or before stood there when the follower first looked (0: nothing had been
    looked at); their logs are shown as was asked, from a tail or a time on, those of later ones whole. `since` is that time (nanoseconds;
    0 for none), `drained` the second until which every pod was shown to its end, `marks` how far each other container was shown.
    """

    job: Key
    begun: int = 0
    since: int = 0
    drained: int = 0
    marks: dict[Key, Mark] = field(default_factory=dict)

    def encode(self) -> str:
        """The text: URL-safe base64."""
        head = _HEAD.pack(_VERSION, self.job, self.begun, self.drained, self.since)
        entries = [_ENTRY.pack(key, mark.at, min(mark.seen, 2**32 - 1)) for key, mark in self.marks.items()]
        return base64.urlsafe_b64encode(head + b"".join(entries)).decode().rstrip("=")

    def fold(self, until: int, keys: Iterable[Key]) -> None:
        """Forget the containers of pods that were made in a second or before, all of which were shown to their end."""
        self.drained = max(self.drained, until)
        for key in keys:
            self.marks.pop(key, None)


def decode(text: str) -> Position:
    """The position that `encode` wrote. Raises InvalidError at `/last_event_id`."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True) if len(text) <= LONGEST else b""
        version, job, begun, drained, since = _HEAD.unpack_from(data)
        marks = {key: Mark(at, seen) for key, at, seen in _ENTRY.iter_unpack(data[_HEAD.size :])}
        if version != _VERSION:
            raise ValueError
    except (ValueError, binascii.Error, struct.error):
        raise refused(text) from None
    return Position(job=job, begun=begun, since=since, drained=drained, marks=marks)


def refused(text: str) -> InvalidError:
    """The error of a text that is no position."""
    rule = "Last-Event-ID must be the id of an event of this stream, as it was sent"
    return InvalidError([Problem(pointer="/last_event_id", value=text, rule=rule)])
