"""The files of reports in the bucket, written so that those of one window always tell of one account.

    the file of the jobs decides: it is written where none was, or in place of one that rests on less, and on nobody else's;
    the other two are made of it, the summary last, each in place of what stood before the file of the jobs was read.

So of two workers at once one decides, and both write the same of it; one that is slow can't put back what another has replaced; and where
one died half way, the next that comes finds no summary of the file that stands, and writes the rest.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from shared.costs.accounts import Account, allocation_rows
from shared.costs.report_files import allocation_file, jobs_file, read_allocation, read_jobs
from shared.costs.report_keys import ReportKeys, folder
from shared.costs.reports import AllocationRow
from shared.costs.summaries import Summary, summary_of
from shared.errors import UnavailableError
from shared.store.objects import Listed, S3Objects

log = structlog.get_logger()

_TRIES: Final = 6
_DAYS_AT_ONCE: Final = 16
"""Days that are listed at once, when the newest don't have as many reports as are asked for."""
_PARQUET: Final = "application/vnd.apache.parquet"  # as registered with IANA


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A report that stands: its summary, and whether this changed anything of it."""

    summary: Summary
    changed: bool


class ReportStore:
    """The reports of all regions. Every method may raise UnavailableError."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects

    async def write(self, keys: ReportKeys, account: Account) -> Written:
        """Write a report, unless one stands that rests on as much; what stands after that."""
        own = await asyncio.to_thread(jobs_file, account)
        changed = False
        for _ in range(_TRIES):
            allocation_tag = await self._objects.tag_of(keys.allocation)
            summary, summary_tag = await self._summary(keys)
            found = await self._objects.get_tagged(keys.jobs)
            standing = await asyncio.to_thread(read_jobs, found[0]) if found else None
            if found is None or standing is None or account.basis.better_than(standing.basis):
                tag = await self._objects.put_if(keys.jobs, own, tag=found[1] if found else None, content_type=_PARQUET)
                if tag is None:
                    continue
                changed, standing = True, account
            else:
                tag = found[1]
            if summary is not None and summary.jobs_tag == tag and allocation_tag is not None:
                return Written(summary=summary, changed=changed)
            rows = allocation_rows(standing)
            data = await asyncio.to_thread(allocation_file, rows)
            if await self._objects.put_if(keys.allocation, data, tag=allocation_tag, content_type=_PARQUET) is None:
                continue
            summary = summary_of(standing, rows, keys, jobs_tag=tag)
            text = summary.model_dump_json(indent=2).encode()
            if await self._objects.put_if(keys.summary, text, tag=summary_tag, content_type="application/json") is not None:
                return Written(summary=summary, changed=True)
        raise UnavailableError(f"{keys.allocation}: others write it again and again")

    async def summary(self, keys: ReportKeys) -> Summary | None:
        """The summary of a report; None where there is none."""
        return (await self._summary(keys))[0]

    async def account(self, keys: ReportKeys) -> Account | None:
        """The rows of a report by execution; None where there is no such report."""
        data = await self._objects.get(keys.jobs)
        return await asyncio.to_thread(read_jobs, data) if data is not None else None

    async def rows(self, keys: ReportKeys) -> list[AllocationRow] | None:
        """The rows of a report by namespace; None where there is no such report."""
        data = await self._objects.get(keys.allocation)
        return await asyncio.to_thread(read_allocation, data) if data is not None else None

    async def days(self, region: str, *, adhoc: bool) -> list[str]:
        """The days of which there are reports, oldest first, `YYYY-MM-DD`; one request for each thousand."""
        found = await self._objects.folders(folder(region, adhoc=adhoc))
        return [name.removeprefix("date=").rstrip("/") for name in found if name.startswith("date=")]

    async def of_day(self, region: str, day: str, *, adhoc: bool) -> list[tuple[ReportKeys, Listed]]:
        """The reports of a day by key, and so by the start of their window."""
        found = await self._objects.listed(f"{folder(region, adhoc=adhoc)}date={day}/")
        return [(keys, one) for one in found if (keys := ReportKeys.parse(one.key)) is not None]

    async def newest(self, region: str, *, adhoc: bool, limit: int) -> list[tuple[ReportKeys, Listed]]:
        """The newest reports, day by day backwards, so that old ones aren't listed: those that were asked for by when they were."""
        days = (await self.days(region, adhoc=adhoc))[::-1]
        found: list[tuple[ReportKeys, Listed]] = []
        count = 1
        while days and len(found) < limit:
            those, days, count = days[:count], days[count:], min(count * 2, _DAYS_AT_ONCE)
            for of_day in await asyncio.gather(*(self.of_day(region, day, adhoc=adhoc) for day in those)):
                found += sorted(of_day, key=lambda pair: (pair[1].modified if adhoc else pair[0].window.start, pair[1].key), reverse=True)
        return found[:limit]

    async def _summary(self, keys: ReportKeys) -> tuple[Summary | None, str | None]:
        found = await self._objects.get_tagged(keys.summary)
        return (Summary.model_validate_json(found[0]), found[1]) if found else (None, None)
