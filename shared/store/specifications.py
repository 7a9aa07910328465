"""Where manifests are kept: compressed in the table, or in S3 when they are larger than an item should hold."""

from __future__ import annotations

from typing import Any, Protocol

from shared.jobs.model import Head, Specification
from shared.store import items, keys
from shared.store.table import Table

INLINE_LIMIT = 256 * 1024
"""Bytes of a compressed manifest that an item holds; DynamoDB's limit for an item is 400 KB, and half of it leaves a transaction room."""


class Objects(Protocol):
    """A place for large objects, by key."""

    async def put(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        """Write an object whole."""
        ...

    async def get(self, key: str) -> bytes | None:
        """Read an object whole; None where there is none."""
        ...


class Specifications:
    """Reads and prepares the specification items of jobs."""

    def __init__(self, table: Table, objects: Objects) -> None:
        self._table = table
        self._objects = objects

    async def prepare(self, specification: Specification) -> items.Item:
        """The item to be written for a specification; a large one's content is put into S3 before."""
        content = await items.compress_aside({"manifest": specification.manifest, "supporting": specification.supporting})
        item: items.Item = {"pk": keys.job(specification.job_id), "sk": keys.specification(specification.version)}
        if len(content) <= INLINE_LIMIT:
            return item | {"content": content}
        key = f"specifications/{specification.job_id}/{specification.version}.json.gz"
        await self._objects.put(key, content, content_type="application/gzip")
        return item | {"object_key": key}

    async def read(self, heads: list[Head]) -> dict[str, Specification]:
        """The specification of each head's version, by job id."""
        versions = {head.id: head.spec_version for head in heads}
        wanted = [{"pk": keys.job(job_id), "sk": keys.specification(version)} for job_id, version in versions.items()]
        found: dict[str, Specification] = {}
        for item in await self._table.batch_get(wanted):
            job_id = keys.job_id_of(item["pk"])
            document = await self._content(item)
            found[job_id] = Specification(job_id=job_id, version=versions[job_id], **document)
        return found

    async def _content(self, item: items.Item) -> Any:
        data = item.get("content")
        if data is None:
            data = await self._objects.get(item["object_key"])
            if data is None:
                raise LookupError(f"the manifest of {item['pk']} is missing in S3: {item['object_key']}")
        return items.decompress(data)
