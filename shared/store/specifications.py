"""Where the manifests of jobs are kept."""

from __future__ import annotations

from shared.jobs.model import Head, Specification
from shared.store import items, keys
from shared.store.contents import Contents, Objects
from shared.store.table import Table


class Specifications:
    """Reads and prepares the specification items of jobs."""

    def __init__(self, table: Table, objects: Objects) -> None:
        self._table = table
        self._contents = Contents(objects)

    async def prepare(self, specification: Specification) -> items.Item:
        """The item to be written for a specification; a large one's content is put into S3 before."""
        document = {"manifest": specification.manifest, "supporting": specification.supporting}
        key = f"specifications/{specification.job_id}/{specification.version}"
        content = await self._contents.attributes(document, key=key)
        return {"pk": keys.job(specification.job_id), "sk": keys.specification(specification.version)} | content

    async def read(self, heads: list[Head]) -> dict[str, Specification]:
        """The specification of each head's version, by job id."""
        versions = {head.id: head.spec_version for head in heads}
        wanted = [{"pk": keys.job(job_id), "sk": keys.specification(version)} for job_id, version in versions.items()]
        found: dict[str, Specification] = {}
        for item in await self._table.batch_get(wanted):
            job_id = keys.job_id_of(item["pk"])
            found[job_id] = Specification(job_id=job_id, version=versions[job_id], **await self._contents.read(item))
        return found
