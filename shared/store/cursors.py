"""Opaque cursors: where a list goes on, bound to the filters that it began with.

A cursor carries a position and a hash of its filters, no secret and no authority: whoever changes the position reads another part of a
list that they may read anyway. So it isn't signed; its form is checked, and what has another form is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping

from shared.errors import InvalidError, Problem

_VERSION = 1
_MAX_LENGTH = 2048
_POSITION = re.compile(r"\d{8}T\d{6}\.\d{6}Z#[A-Za-z0-9._-]{1,128}")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
INVALID = "Invalid cursor: it must be the next_cursor of another page"
OTHER_FILTERS = "Cursor does not match the requested filters: it must come with those of the page that it is of"


def encode(position: str, filters: Mapping[str, object]) -> str:
    """A cursor that goes on after `position` (a `listed_sk`) in the list of these filters."""
    content = {"v": _VERSION, "p": position, "f": _digest(filters)}
    return base64.urlsafe_b64encode(json.dumps(content, separators=(",", ":")).encode()).decode().rstrip("=")


def decode(cursor: str, filters: Mapping[str, object]) -> str:
    """The position in a cursor.

    Raises InvalidError with the pointer /cursor for one that `encode` did not write, or wrote for other filters.
    """
    content = _content(cursor)
    if content is None:
        raise InvalidError([Problem(pointer="/cursor", value=cursor, rule=INVALID)])
    position, digest = content
    if digest != _digest(filters):
        raise InvalidError([Problem(pointer="/cursor", value=cursor, rule=OTHER_FILTERS)])
    return position


def _content(cursor: str) -> tuple[str, str] | None:
    if len(cursor) > _MAX_LENGTH or not _BASE64URL.fullmatch(cursor):
        return None
    try:
        found = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.keys() != {"v", "p", "f"} or found["v"] != _VERSION or isinstance(found["v"], bool):
        return None
    position, digest = found["p"], found["f"]
    if not isinstance(position, str) or not _POSITION.fullmatch(position) or not isinstance(digest, str):
        return None
    return position, digest


def _digest(filters: Mapping[str, object]) -> str:
    text = json.dumps(filters, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
