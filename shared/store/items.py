"""Records to DynamoDB items and back.

A record becomes its JSON form (times as ISO 8601 text, Decimal as text, so that both stay exact) without the fields that are None.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any, TypeVar

from shared.jobs.model import Head, Record
from shared.store import keys
from shared.store.values import from_typed, to_typed

R = TypeVar("R", bound=Record)
Item = dict[str, Any]

_THREAD_BYTES = 64 * 1024
_THREAD_COMPRESSED_BYTES = 16 * 1024


def to_wire(values: Item) -> Item:
    """Plain values to DynamoDB's typed ones."""
    return {name: to_typed(value) for name, value in values.items()}


def from_wire(item: Item) -> Item:
    """DynamoDB's typed values to plain ones; numbers come as Decimal, binary as bytes."""
    return {name: from_typed(value) for name, value in item.items()}


def to_item(record: Record) -> Item:
    """The attributes of a record, without its keys."""
    return record.model_dump(mode="json", exclude_none=True)


def from_item(kind: type[R], item: Item) -> R:
    """The record in an item; keys and index attributes are left aside."""
    return kind.model_validate({name: value for name, value in item.items() if name in kind.model_fields})


def head_item(head: Head, layout: keys.Layout) -> Item:
    """The whole item of a head, its index attributes among it."""
    return {"pk": keys.job(head.id), "sk": keys.HEAD} | to_item(head) | keys.index_attributes(head, layout)


def compress(document: Any) -> bytes:
    """A JSON document, compressed. The same document gives the same bytes."""
    return _gzip(_text(document))


async def compress_aside(document: Any) -> bytes:
    """The same, with a large document in a thread, so that the event loop goes on meanwhile."""
    text = _text(document)
    return _gzip(text) if len(text) <= _THREAD_BYTES else await asyncio.to_thread(_gzip, text)


def _text(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=6, mtime=0)


def decompress(data: bytes) -> Any:
    """The document that `compress` wrote."""
    return json.loads(gzip.decompress(data))


async def decompress_aside(data: bytes) -> Any:
    """The same, with a large document in a thread."""
    return decompress(data) if len(data) <= _THREAD_COMPRESSED_BYTES else await asyncio.to_thread(decompress, data)
