"""Those who run the fleet: they drain regions, one after the other or all at once, and resume them."""

from __future__ import annotations

import asyncio
import random

from tests.simulation.users import Users
from tests.simulation.workers import Services

LAST_DRAIN = 300.0
"""Seconds after the last fault at which a region may be drained once more, when nothing of the time before is under way any longer."""
LAST_RESUME = 480.0
_OFTEN = (30.0, 200.0, 10_000.0)
_BUSY = 0.5
"""The part of the time of faults in which they change their minds."""


class Operators:
    """Drain and resume regions as often as the seed says. In the end every region is open, so that every job can end."""

    def __init__(self, services: Services, users: Users, chance: random.Random) -> None:
        self._services = services
        self._users = users
        self._chance = chance
        self._regions = services.settings.regions
        self._pause = chance.choice(_OFTEN)
        self.returns = chance.random() < 0.3
        """Whether one of them comes once more when all is calm."""

    async def operate(self) -> None:
        """Go on for a while, then let one region be open, and all when the time of faults is over: so that queued jobs are moved under
        faults."""
        faults = self._services.faults
        if self._chance.random() < 0.8:
            await self._drain_all()
        while True:
            next_at = asyncio.get_running_loop().time() + self._chance.expovariate(1 / self._pause)
            if next_at > faults.calm_at * _BUSY:
                break
            await self._until(next_at)
            await self._do_something()
        await self._until(faults.calm_at * _BUSY)
        await self._resume(self._chance.choice(self._regions))
        await self._until(faults.calm_at)
        await self._resume_all()
        if self.returns:
            await self._until(faults.calm_at + LAST_DRAIN)
            await self._drain_all()
            await self._until(faults.calm_at + LAST_RESUME)
            await self._resume_all()

    async def _do_something(self) -> None:
        region, deed = self._chance.choice(self._regions), self._chance.random()
        if deed < 0.3:
            await self._drain(region, interrupt=self._chance.random() < 0.4)
        elif deed < 0.5:
            await self._drain_all()
        elif deed < 0.7:
            await self._resume(region)
        else:
            await self._shift(region)

    async def _drain(self, region: str, *, interrupt: bool) -> None:
        move = self._chance.random() < 0.85
        await self._users.insist(lambda api: api.control.drain(region, by="an operator", reason="a test", move=move, interrupt=interrupt))
        self._tell("drained", f"{region}, move={move}, interrupt={interrupt}")

    async def _drain_all(self) -> None:
        await asyncio.gather(*(self._drain(region, interrupt=False) for region in self._regions))

    async def _shift(self, region: str) -> None:
        """Drain one region and open all others: its queued jobs go there."""
        await self._drain(region, interrupt=self._chance.random() < 0.4)
        await asyncio.gather(*(self._resume(other) for other in self._regions if other != region))

    async def _resume(self, region: str) -> None:
        await self._users.insist(lambda api: api.control.resume(region, by="an operator", reason=None))
        self._tell("resumed", region)

    async def _resume_all(self) -> None:
        await asyncio.gather(*(self._resume(region) for region in self._regions))

    async def _until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))

    def _tell(self, what: str, about: str) -> None:
        self._services.trace.count(f"operators: {what}")
        self._services.trace.step("  operator", f"{what} {about}")
