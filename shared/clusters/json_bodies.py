"""One JSON value that came over a wire (a request's body, a message), read as strictly as manifests are.

What Python's reader lets pass is refused with its place: keys that come twice, NaN, NUL characters, lone surrogates, endless nesting.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from shared.clusters.json_documents import json_documents
from shared.clusters.trees import check_tree
from shared.errors import InvalidError, Problem

THREAD_BYTES: Final = 64 * 1024
"""A body larger than this is worked on in a thread: a few milliseconds are the most that an event loop should be held."""
_ENVELOPE_LEVELS: Final = 2
"""What stands around a manifest: the body, and the array of supporting objects."""


async def read_body(body: bytes) -> Any:
    """The one JSON value of a body; a large one is read in a thread. Raises InvalidError."""
    return await asyncio.to_thread(load_body, body) if len(body) > THREAD_BYTES else load_body(body)


def load_body(body: bytes) -> Any:
    """The one JSON value of a body. Raises InvalidError."""
    try:
        text = body.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        rule = f"must be UTF-8: byte {error.start} isn't"
        raise InvalidError([Problem(pointer="", value=body[error.start : error.start + 4], rule=rule)]) from None
    documents = json_documents(text, limit=1)
    if not documents:
        raise InvalidError([Problem(pointer="", value=None, rule="must be JSON, and is empty")])
    check_tree(documents[0], around=_ENVELOPE_LEVELS)
    return documents[0]
