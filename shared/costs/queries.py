"""What was used and what it cost, summed up over the reports of a time or of one report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Final

from shared.costs.accounts import Account
from shared.costs.model import CostRow, RowKind, Window, exact_sum
from shared.costs.report_keys import ReportKeys
from shared.costs.report_store import ReportStore
from shared.costs.totals import By, Total, totals
from shared.costs.windows import holes
from shared.errors import InvalidError, NotFoundError, Problem, UnavailableError

LONGEST: Final = timedelta(days=31)
MAX_REPORTS: Final = 1000
MAX_ROWS: Final = 100_000
"""What one question may read. Summing up so many rows takes seconds."""
_AT_ONCE: Final = 16
_ALL: Final = "labels"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Totals, the most expensive first, and what they are of.

    `reports` are the windows that were summed up, `missing` the parts of the asked time without a report, `incomplete` how many of the
    reports rest on less than the whole of their window.
    """

    window: Window
    totals: Sequence[Total]
    reports: Sequence[Window]
    missing: Sequence[Window]
    incomplete: int

    @property
    def total_cost(self) -> Decimal:
        """All of it, in USD."""
        return exact_sum(total.total_cost for total in self.totals)


class CostQueries:
    """Reads reports. `namespaces` are those whose rows may be seen; None for all, and what was idle."""

    def __init__(self, store: ReportStore) -> None:
        self._store = store

    async def over(
        self, region: str, window: Window, by: By, *, label: str | None = None, namespaces: frozenset[str] | None = None
    ) -> Answer:
        """The totals of the scheduled reports that lie within a time. Raises InvalidError, UnavailableError."""
        if window.end - window.start > LONGEST:
            raise InvalidError([Problem(pointer="/from", value=window.start.isoformat(), rule="must be at most 31 days before the end")])
        _summed((), by, label)
        chosen = await self._within(region, window)
        if len(chosen) > MAX_REPORTS:
            told = f"must be nearer to the end: there are {len(chosen)} reports in this time, and at most {MAX_REPORTS} are read at once"
            raise InvalidError([Problem(pointer="/from", value=window.start.isoformat(), rule=told)])
        rows: list[CostRow] = []
        incomplete = 0
        for begin in range(0, len(chosen), _AT_ONCE):
            found = await asyncio.gather(*(self._account(keys) for keys in chosen[begin : begin + _AT_ONCE]))
            for account in found:
                rows += _seen(account.rows, namespaces)
                incomplete += bool(account.basis.gaps)
            _bounded(rows, window)
        return Answer(
            window=window,
            totals=await asyncio.to_thread(_summed, rows, by, label),
            reports=[keys.window for keys in chosen],
            missing=holes(window, [keys.window for keys in chosen]),
            incomplete=incomplete,
        )

    async def of_report(self, key: str, by: By, *, label: str | None = None, namespaces: frozenset[str] | None = None) -> Answer:
        """The totals of one report by its key. Raises NotFoundError, InvalidError, UnavailableError."""
        _summed((), by, label)
        keys = ReportKeys.parse(key)
        account = await self._store.account(keys) if keys is not None and keys.allocation == key else None
        if keys is None or account is None:
            raise NotFoundError("Cost report", key)
        rows = _seen(account.rows, namespaces)
        _bounded(rows, keys.window)
        return Answer(
            window=keys.window,
            totals=await asyncio.to_thread(_summed, rows, by, label),
            reports=[keys.window],
            missing=[],
            incomplete=int(bool(account.basis.gaps)),
        )

    async def latest(self, region: str) -> str:
        """The key of the newest report of the schedule; of one that was asked for, where there is none. Raises NotFoundError,
        UnavailableError."""
        for adhoc in (False, True):
            if found := await self._store.newest(region, adhoc=adhoc, limit=1):
                return found[0][0].allocation
        raise NotFoundError("Cost report", "latest", hint=f"none has been written in {region} yet")

    async def _within(self, region: str, window: Window) -> list[ReportKeys]:
        """The reports that lie within a time, by time; of those that cover the same, as after a change of the schedule, the first.

        As many days as the time has, and the one before, are listed.
        """
        days = [(window.start + timedelta(days=number)).date().isoformat() for number in range((window.end - window.start).days + 2)]
        there = set(await self._store.days(region, adhoc=False))
        found = await asyncio.gather(*(self._store.of_day(region, day, adhoc=False) for day in days if day in there))
        chosen: list[ReportKeys] = []
        for keys in sorted((keys for those in found for keys, _ in those), key=lambda keys: keys.window):
            if keys.window.start >= (chosen[-1].window.end if chosen else window.start) and keys.window.end <= window.end:
                chosen.append(keys)
        return chosen

    async def _account(self, keys: ReportKeys) -> Account:
        account = await self._store.account(keys)
        if account is None:
            raise UnavailableError(f"{keys.jobs}: missing beside its report, which may be on its way; try again")
        return account


def _seen(rows: Sequence[CostRow], namespaces: frozenset[str] | None) -> list[CostRow]:
    """The rows that a reader may see: of some namespaces, and then nothing of what was idle; or all."""
    if namespaces is None:
        return list(rows)
    return [row for row in rows if row.kind is not RowKind.IDLE and row.namespace in namespaces]


def _summed(rows: Sequence[CostRow], by: By, label: str | None) -> list[Total]:
    """The totals. By labels without one of them: by all that a row has, as `key=value` pairs. Raises InvalidError."""
    if by is By.LABEL and label is None:
        rows = [replace(row, labels={_ALL: ",".join(f"{name}={value}" for name, value in sorted(row.labels.items()))}) for row in rows]
        label = _ALL
    return totals(rows, by, label=label)


def _bounded(rows: Sequence[CostRow], window: Window) -> None:
    if len(rows) > MAX_ROWS:
        told = f"must be nearer to the end: there are more than {MAX_ROWS} rows in this time"
        raise InvalidError([Problem(pointer="/from", value=window.start.isoformat(), rule=told)])
