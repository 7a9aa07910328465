"""What a producer calls its message, read of a message that is refused, however wrong: only so can the producer find the rejection.

As lenient as Python's reader allows: the last of keys that come twice, NaN, control characters, endless nesting. For the rejection alone;
nothing else may be read so.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final

from shared.clusters.json_bodies import THREAD_BYTES
from shared.errors import clean

MAX_REFERENCE: Final = 256

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_DECODER: Final = json.JSONDecoder(strict=False, parse_int=float)
"""Integers are read as other numbers, since Python refuses to read very long ones."""


async def read_reference(body: bytes) -> str | None:
    """The reference in a message, cut to 256 characters; None where there is none, or where the text is no JSON at all."""
    return await asyncio.to_thread(reference_of, body) if len(body) > THREAD_BYTES else reference_of(body)


def reference_of(body: bytes) -> str | None:
    """The same, at once."""
    text = body.decode(errors="replace").removeprefix("\ufeff").lstrip()
    try:
        document = _decoded(text)
    except ValueError:
        return None
    found = document.get("reference") if isinstance(document, dict) else None
    return clean(found[:MAX_REFERENCE]) if isinstance(found, str) else None


def _decoded(text: str) -> Any:
    try:
        return _DECODER.raw_decode(text)[0]
    except RecursionError:
        return _DECODER.raw_decode(_shallow(text))[0]


def _shallow(text: str) -> str:
    """The outermost object, with null for every array and object in it. Raises ValueError where brackets don't close."""
    kept: list[str] = []
    depth, position = 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
            if depth == 2:
                kept += [text[position : token.start()], "null"]
        elif token[0] in ("]", "}"):
            depth -= 1
            if depth == 1:
                position = token.end()
            elif depth == 0:
                return "".join([*kept, text[position : token.end()]])
    raise ValueError("brackets that don't close")
