"""Rejection records: why a message from the submissions queue did not become a job. Its producer can list and read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import AwareDatetime, Field

from shared.clock import sortable
from shared.errors import MAX_PROBLEMS, NotFoundError, Problem, clean
from shared.jobs.model import Record
from shared.store import items
from shared.store.pages import newest_first
from shared.store.table import Table

RETENTION = timedelta(days=30)
"""How long a rejection can be read; then the table's TTL removes it. Its dead letter stays for 14 days, SQS's longest."""
EXCERPT_BYTES = 2048
_PARTITION = "REJECTIONS"
_FILTERS: dict[str, object] = {"list": "rejections"}


class RejectedProblem(Record):
    """One fault of a message: where it is, what stands there, and the rule that it breaks.

    `value` is null where nothing stands there, or an object, an array or something that is no JSON; a long text is cut.
    """

    pointer: str
    value: str | int | float | bool | None = None
    rule: str


class Rejection(Record):
    """A message that was refused; `id` is its SQS message id, `reference` what its producer called it."""

    id: str
    reason: str
    problems: list[RejectedProblem] = Field(default_factory=list)
    message_id: str
    queue: str
    reference: str | None = None
    rejected_at: AwareDatetime
    excerpt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RejectionPage:
    """Some rejections, newest first, and the cursor that goes on."""

    rejections: list[Rejection]
    cursor: str | None


def told(problems: Iterable[Problem]) -> list[RejectedProblem]:
    """Problems in the form in which they are kept."""
    return [
        RejectedProblem(pointer=clean(problem.pointer), value=problem.told, rule=clean(problem.rule))
        for problem, _ in zip(problems, range(MAX_PROBLEMS), strict=False)
    ]


def excerpt(body: str) -> str:
    """The beginning of a message, by which its producer knows it again: 2 KB at the most, cut between characters."""
    return body.encode(errors="replace")[:EXCERPT_BYTES].decode(errors="ignore")


class Rejections:
    """The repository of rejections."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def put(self, rejection: Rejection) -> None:
        """Write a rejection. One of the same message is overwritten: a message that comes twice is refused once."""
        index: dict[str, Any] = {
            "state_pk": _PARTITION,
            "listed_sk": f"{sortable(rejection.rejected_at)}#{rejection.id}",
            "expires": int((rejection.rejected_at + RETENTION).timestamp()),
        }
        await self._table.put(_key(rejection.id) | _to_item(rejection) | index)

    async def get(self, rejection_id: str) -> Rejection:
        """One rejection. Raises NotFoundError."""
        item = await self._table.get(_key(rejection_id)) if 0 < len(rejection_id) <= 200 else None
        if item is None:
            raise NotFoundError("Rejection", rejection_id)
        return _from_item(item)

    async def page(self, *, limit: int = 100, cursor: str | None = None) -> RejectionPage:
        """One page, newest first: one query and a batch read for each hundred. Raises InvalidError for a bad cursor."""
        found, following = await newest_first(self._table, _PARTITION, _FILTERS, limit=limit, cursor=cursor)
        return RejectionPage(rejections=[_from_item(item) for item in found], cursor=following)


def _key(rejection_id: str) -> items.Item:
    return {"pk": f"REJECTION#{rejection_id}", "sk": "REJECTION"}


def _to_item(rejection: Rejection) -> items.Item:
    """The attributes of a rejection. Values are kept as JSON text, since DynamoDB's numbers don't tell 5 from 5.0."""
    item = items.to_item(rejection)
    for problem in item["problems"]:
        if "value" in problem:
            problem["value"] = json.dumps(problem["value"])
    return item


def _from_item(item: items.Item) -> Rejection:
    problems = [one | ({"value": json.loads(one["value"])} if "value" in one else {}) for one in item.get("problems", ())]
    return items.from_item(Rejection, item | {"problems": problems})
