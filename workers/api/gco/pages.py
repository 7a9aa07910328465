"""A page of the list with its manifests: bounded in what it reads and in what it weighs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from shared.clusters.trees import canonical
from shared.errors import InvalidError
from shared.jobs.model import Head
from shared.store import cursors, keys
from shared.store.listing import Filters
from workers.api.core import Core
from workers.api.gco.schemas import QueuedJob
from workers.api.gco.translation import history_of_head, record

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of manifests in one page: below the 6 MB that Lambda answers with, escapes included. A page that would have more ends earlier."""
_TOGETHER = 50
"""Manifests read in one request; what is read beyond the weight of a page is thrown away, so not too many."""
_CURSOR_RULES: Final = {
    cursors.INVALID: "Invalid queue cursor: it must be the next_cursor of another page",
    cursors.OTHER_FILTERS: "Queue cursor does not match the requested filters: it must come with those of the page that it is of",
}
"""In the words of this door, which has a cursor for no other list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordPage:
    """Records, and the cursor that goes on."""

    jobs: list[QueuedJob]
    cursor: str | None
    partial: bool


async def page(core: Core, filters: Filters, *, limit: int, cursor: str | None) -> RecordPage:
    """One page. Requests: those of `Listing.page`, and a batch read for each fifty jobs. Raises InvalidError for a bad cursor."""
    try:
        listed = await core.listing.page(filters, limit=limit, cursor=cursor)
    except InvalidError as invalid:
        raise InvalidError(replace(one, rule=_CURSOR_RULES.get(one.rule, one.rule)) for one in invalid.problems) from None
    jobs: list[QueuedJob] = []
    weight = 0
    for start in range(0, len(listed.heads), _TOGETHER):
        heads = listed.heads[start : start + _TOGETHER]
        specifications = await core.jobs.specifications(heads)
        for head in heads:
            found = specifications.get(head.id)
            manifest = found.manifest if found else {}
            weight += len(canonical(manifest))
            if jobs and weight > MAX_PAGE_BYTES:
                return RecordPage(jobs=jobs, cursor=_after(core, filters, listed.heads[len(jobs) - 1]), partial=True)
            jobs.append(record(head, manifest, history_of_head(head)))
    return RecordPage(jobs=jobs, cursor=listed.cursor, partial=listed.partial)


def _after(core: Core, filters: Filters, last: Head) -> str:
    return core.listing.cursor_after(filters, keys.listed_order(last))
