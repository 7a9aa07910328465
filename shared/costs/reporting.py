"""Makes the reports of a region."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shared.clock import Clock
from shared.costs.accounts import Account, account_of
from shared.costs.model import Window
from shared.costs.opencost import OpenCost
from shared.costs.prices import PriceSource, rates_of
from shared.costs.report_keys import ReportKeys
from shared.costs.report_store import ReportStore, Written
from shared.costs.usage import UsageSource
from shared.errors import NotFoundError


class Reporter:
    """Makes reports of one region of what its observers told, at the prices of a source. Where there is an OpenCost, it is asked too.

    Every method may raise UnavailableError, and SumError, which is a fault of the program.
    """

    def __init__(
        self,
        *,
        region: str,
        usage: UsageSource,
        prices: PriceSource,
        store: ReportStore,
        clock: Clock,
        nonce: Callable[[], str],
        opencost: OpenCost | None = None,
    ) -> None:
        self.region = region
        self._usage = usage
        self._prices = prices
        self._store = store
        self._clock = clock
        self._nonce = nonce
        self._opencost = opencost

    async def report(self, window: Window) -> Written:
        """The report of a window of the schedule. One that stands stays, unless it can be made of more than it was."""
        keys = ReportKeys.scheduled(self.region, window)
        standing = await self._store.summary(keys)
        if standing is not None and standing.final:
            return Written(summary=standing, changed=False)
        return await self._store.write(keys, await self._account(window))

    async def adhoc(self, window: Window) -> tuple[ReportKeys, Written]:
        """A report of any window, beside all others. Raises NotFoundError where no observer has told of any of it."""
        today = self._clock.now().date()
        account = await self._account(window)
        if not account.rows and [(gap.start, gap.end) for gap in account.basis.gaps] == [(window.start, window.end)]:
            told = f"{window.start.isoformat()} to {window.end.isoformat()}"
            raise NotFoundError("Usage of", told, hint=f"no observer of {self.region} has told of any of this time")
        keys = ReportKeys(region=self.region, window=window, day=today, nonce=self._nonce()[:8])
        return keys, await self._store.write(keys, account)

    async def _account(self, window: Window) -> Account:
        usage = await self._usage.usage(self.region, window)
        rates = await rates_of(usage.nodes, self._prices, window)
        opencost = await self._opencost.read(window) if self._opencost is not None else None
        made_at = self._clock.now()
        return await asyncio.to_thread(account_of, usage, rates, region=self.region, made_at=made_at, opencost=opencost)
