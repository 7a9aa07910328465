"""Documents that may be large: compressed in their item, or in S3 when they are larger than an item should hold."""

from __future__ import annotations

from typing import Any, Protocol

from shared.store import items

INLINE_LIMIT = 256 * 1024
"""Bytes of a compressed document that an item holds; DynamoDB's limit for an item is 400 KB, and half of it leaves a transaction room."""


class Objects(Protocol):
    """A place for large objects, by key."""

    async def put(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        """Write an object whole."""
        ...

    async def get(self, key: str) -> bytes | None:
        """Read an object whole; None where there is none."""
        ...


class Contents:
    """Writes and reads the contents of items."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def attributes(self, document: Any, *, key: str) -> items.Item:
        """The attributes that hold a document; a large one is put into S3 before, under the key with `.json.gz`.

        What stands under a key is written over, so a key must belong to one document.
        """
        content = await items.compress_aside(document)
        if len(content) <= INLINE_LIMIT:
            return {"content": content}
        object_key = f"{key}.json.gz"
        await self._objects.put(object_key, content, content_type="application/gzip")
        return {"object_key": object_key}

    async def read(self, item: items.Item) -> Any:
        """The document of an item. Raises LookupError where its object is missing in S3, UnavailableError."""
        data = item.get("content")
        if data is None:
            data = await self._objects.get(item["object_key"])
            if data is None:
                raise LookupError(f"the content of {item['pk']} is missing in S3: {item['object_key']}")
        return await items.decompress_aside(data)
