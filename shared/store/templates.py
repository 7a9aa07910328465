"""Templates in the table: a head that says what stands now, and a version item for each content that ever stood.

A change writes the next version and moves the head to it in one transaction, on condition that the head is as it was read. A deletion
leaves head and versions, out of the list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import tenacity

from shared.clusters.trees import canonical
from shared.errors import ConflictError, NotFoundError
from shared.jobs.patience import again
from shared.store import items, keys, totals
from shared.store.contents import Contents, Objects
from shared.store.pages import newest_first
from shared.store.table import ConditionFailedError, Table
from shared.templates.model import Content, Template, TemplateHead

_PARTITION = "TEMPLATES"
_FILTERS: dict[str, object] = {"list": "templates"}
_CONTESTED_SECONDS = 10.0
"""How long a change is made anew, since others were faster."""
_ROUNDS = 5
"""Pages of the index that are read for one page of those that a caller sees."""
_OF_A_VERSION = ("version", "updated_at", "updated_by")


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplatePage:
    """Some templates, newest first, and the cursor that goes on (None at the end): also where fewer were found than wanted."""

    heads: list[TemplateHead]
    cursor: str | None


class Templates:
    """The repository of templates."""

    def __init__(self, table: Table, objects: Objects) -> None:
        self._table = table
        self._contents = Contents(objects)

    async def create(self, name: str, content: Content, *, at: datetime, by: str) -> Template:
        """A new template. Raises ConflictError where there is one of that name."""

        def created(standing: TemplateHead | None) -> TemplateHead:
            if standing is not None and standing.deleted_at is None:
                raise ConflictError(f"Template '{name}' already exists")
            version = standing.version + 1 if standing is not None else 1
            return TemplateHead(
                name=name,
                version=version,
                description=content.description,
                namespace=content.namespace,
                created_at=at,
                created_by=by,
                updated_at=at,
                updated_by=by,
            )

        return Template(head=await self._change(name, created, content), content=content)

    async def replace(self, name: str, content: Content, *, at: datetime, by: str, allowed: Callable[[TemplateHead], None]) -> Template:
        """The next version of a template; `allowed` raises where it may not be changed. Raises NotFoundError."""

        def replaced(standing: TemplateHead | None) -> TemplateHead:
            head = _existing(standing, name)
            allowed(head)
            about = {"description": content.description, "namespace": content.namespace}
            return head.model_copy(update={"version": head.version + 1, "updated_at": at, "updated_by": by} | about)

        return Template(head=await self._change(name, replaced, content), content=content)

    async def delete(self, name: str, *, at: datetime, allowed: Callable[[TemplateHead], None]) -> None:
        """Take a template away; its versions stay. Raises NotFoundError, and what `allowed` raises."""

        def deleted(standing: TemplateHead | None) -> TemplateHead:
            head = _existing(standing, name)
            allowed(head)
            return head.model_copy(update={"deleted_at": at})

        await self._change(name, deleted, None)

    async def get(self, name: str, version: int | None = None) -> Template:
        """The newest version of a template that stands, or an older one of one that ever stood. Raises NotFoundError."""
        head = await self._head(name)
        if version is None:
            head = _existing(head, name)
        elif head is None or not 1 <= version <= head.version:
            raise NotFoundError("Template", f"{name}@{version}", hint=f"its versions are 1 to {head.version}" if head else None)
        item = await self._table.get(keys.template_version(name, version or head.version))
        if item is None:
            raise LookupError(f"version {version or head.version} of template {name} is missing")
        content = Content.model_validate(await self._contents.read(item))
        about = {"description": content.description, "namespace": content.namespace}
        written = {field: item[field] for field in _OF_A_VERSION} | about
        return Template(head=TemplateHead.model_validate(head.model_dump() | written), content=content)

    async def page(self, *, limit: int, cursor: str | None = None, sees: Callable[[TemplateHead], bool] = lambda _: True) -> TemplatePage:
        """One page of those that `sees` takes: one query, and a batch read for each hundred; up to five of both where it leaves some out.

        Raises InvalidError for a bad cursor.
        """
        heads: list[TemplateHead] = []
        for _ in range(_ROUNDS):
            found, cursor = await newest_first(self._table, _PARTITION, _FILTERS, limit=limit - len(heads), cursor=cursor)
            read = (items.from_item(TemplateHead, item) for item in found)
            heads += [head for head in read if head.deleted_at is None and sees(head)]
            if cursor is None or len(heads) == limit:
                break
        return TemplatePage(heads=heads, cursor=cursor)

    async def _head(self, name: str) -> TemplateHead | None:
        item = await self._table.get(keys.template(name))
        return items.from_item(TemplateHead, item) if item is not None else None

    async def _change(self, name: str, change: Callable[[TemplateHead | None], TemplateHead], content: Content | None) -> TemplateHead:
        """Write what a change makes of the head as it stands, with a new version where there is content.

        Raises ConflictError where others are faster again and again.
        """
        document = content.model_dump() if content is not None else None
        attributes: items.Item | None = None

        async def write(_: int) -> TemplateHead:
            nonlocal attributes
            standing = await self._head(name)
            head = change(standing)
            if document is not None and attributes is None:
                # By its hash, so that writers that meet don't write over each other.
                digest = hashlib.sha256(canonical(document)).hexdigest()
                attributes = await self._contents.attributes(document, key=f"templates/{name}/{digest}")
            actions = self._actions(standing, head, attributes)
            await self._table.transact(lambda _: actions)
            return head

        try:
            return await again(write, _while_contested)
        except ConditionFailedError as contested:
            raise ConflictError(f"Template '{name}' is changed by many at the same time; look at it again") from contested

    def _actions(self, standing: TemplateHead | None, head: TemplateHead, attributes: items.Item | None) -> list[items.Item]:
        put: items.Item = {"TableName": self._table.name, "Item": items.to_wire(_head_item(head))}
        actions: list[items.Item] = [{"Put": put | _as_read(standing)}]
        if attributes is not None:
            version = keys.template_version(head.name, head.version)
            plain = items.to_item(head)
            written = {field: plain[field] for field in _OF_A_VERSION}
            actions.append({"Put": {"TableName": self._table.name, "Item": items.to_wire(version | written | attributes)}})
        by = _counted(head) - _counted(standing)
        if by:
            actions.append(totals.move(self._table.name, keys.total(totals.TEMPLATES), by))
        return actions


def _while_contested() -> tenacity.AsyncRetrying:
    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(ConditionFailedError),
        wait=tenacity.wait_random_exponential(multiplier=0.02, max=1.0),
        stop=tenacity.stop_after_delay(_CONTESTED_SECONDS),
        reraise=True,
    )


def _existing(head: TemplateHead | None, name: str) -> TemplateHead:
    if head is None or head.deleted_at is not None:
        raise NotFoundError("Template", name)
    return head


def _counted(head: TemplateHead | None) -> int:
    return int(head is not None and head.deleted_at is None)


def _head_item(head: TemplateHead) -> items.Item:
    index = {"state_pk": _PARTITION, "listed_sk": keys.by_time(head.created_at, head.name)} if head.deleted_at is None else {}
    return keys.template(head.name) | items.to_item(head) | index


def _as_read(standing: TemplateHead | None) -> dict[str, Any]:
    """The condition that the head is as it was read: a version is never taken back, and stands once alive and once deleted."""
    if standing is None:
        return {"ConditionExpression": "attribute_not_exists(pk)"}
    deleted = "attribute_not_exists" if standing.deleted_at is None else "attribute_exists"
    return {
        "ConditionExpression": f"version = :seen AND {deleted}(deleted_at)",
        "ExpressionAttributeValues": items.to_wire({":seen": standing.version}),
    }
