"""The prices of the machines that a cluster has, kept at hand: for whoever must tell at once what something has cost, and can't ask.

A machine's price is asked for when the first of its kind joins, minutes before a job ends on it, and again every few minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.costs.model import NodeUsage, Rate, Window
from shared.costs.prices import Machine, PriceSource, machine_of
from shared.errors import UnavailableError

log = structlog.get_logger()

RENEWED_AFTER: Final = timedelta(minutes=5)
"""How old what is told may be. EC2 changes a spot price a few times a day, and a price on demand once in years."""
AGAIN_AFTER: Final = timedelta(seconds=30)
"""How soon a source that didn't answer is asked again."""
BEFORE: Final = timedelta(hours=1)
"""So long before the first of its nodes a machine's prices begin: clocks differ, and a node may turn out to be older than it was told."""


class PriceBoard:
    """Prices by machine, as last heard; none of a machine that no source knows, or of which none has answered yet.

    `nodes` gives those that are known of the cluster, the ones that are gone among them for as long as they are asked for.
    """

    def __init__(self, source: PriceSource, clock: Clock, nodes: Callable[[], Iterable[NodeUsage]]) -> None:
        self._source = source
        self._clock = clock
        self._nodes = nodes
        self._new = asyncio.Event()
        self._asked: frozenset[Machine] = frozenset()
        self._heard: set[Machine] = set()
        self.rates: dict[Machine, Sequence[Rate]] = {}

    def noticed(self, node: NodeUsage) -> None:
        """A node is there; one of a new kind is asked for at once."""
        machine = machine_of(node)
        if machine is not None and machine not in self._asked:
            self._new.set()

    def heard(self, node: NodeUsage) -> bool:
        """Whether the price of a node has been asked for, and there was an answer or a failure; true where there is nothing to ask for."""
        machine = machine_of(node)
        return machine is None or machine in self._heard

    async def run(self) -> None:
        """Ask again and again. What goes wrong is logged."""
        while True:
            self._new.clear()
            pause = RENEWED_AFTER if await self.renew() else AGAIN_AFTER
            with suppress(TimeoutError):
                async with asyncio.timeout(pause.total_seconds()):
                    await self._new.wait()

    async def renew(self) -> bool:
        """Ask for the prices of all machines; False where some source didn't answer, whose last word then stands."""
        now = self._clock.now()
        complete = True
        wanted = self._wanted()
        self._asked = frozenset(wanted)
        for machine, since in wanted.items():
            try:
                self.rates[machine] = await self._source.rates(machine, Window(min(since, now) - BEFORE, now))
            except UnavailableError as error:
                log.warning("price not known yet", machine=str(machine), error=str(error))
                complete = False
            except Exception:
                log.exception("price not read", machine=str(machine))
                complete = False
            self._heard.add(machine)
        self.rates = {machine: rates for machine, rates in self.rates.items() if machine in wanted}
        self._heard &= wanted.keys()
        return complete

    def _wanted(self) -> dict[Machine, datetime]:
        """The machines, and since when there was one."""
        found: dict[Machine, datetime] = {}
        for node in self._nodes():
            machine = machine_of(node)
            if machine is not None:
                found[machine] = min(node.start, found.get(machine, node.start))
        return found
