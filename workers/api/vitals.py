"""Whether the API can serve: for its own `/readyz` and `/api/v1/health`, and for the probes of its process (`workers.probing`)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from shared.errors import FleetError
from workers.api.core import Core
from workers.probing import LoopVitals

PROBE_SECONDS: Final = 3.0
"""How long a probe waits for the table; a load balancer's own patience is five seconds."""
OBSERVED_WITHIN: Final = timedelta(minutes=5)
"""A region whose observer has said nothing for longer counts as disconnected."""


async def look(core: Core) -> tuple[bool, bool]:
    """Whether the table answers, and whether the region's cluster was observed lately. One read."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            reports = await core.reports.latest([core.region])
    except (FleetError, TimeoutError):
        return False, False
    report = reports.get(core.region)
    return True, report is not None and core.clock.now() - report.at < OBSERVED_WITHIN


async def unready(core: Core) -> str | None:
    """Why the service can't serve; None where the table answers and every worker's loop of this process runs. One read at most."""
    if ended := core.loops.ended():
        return f"stopped unexpectedly in this process: {', '.join(ended)}"
    return None if (await look(core))[0] else "the table does not answer"


class DoorVitals:
    """How a process with the API is: its loops, where some run in it, and the API."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def dead(self) -> str | None:
        """A pass of a loop doesn't end. The API itself is stuck when nobody answers."""
        for name, passes in self._core.loops.passes:
            if (reason := LoopVitals(passes, self._core.clock).dead()) is not None:
                return f"{name}: {reason}"
        return None

    async def unready(self) -> str | None:
        """The service can't serve. A loop whose passes fail doesn't keep the API from it."""
        return await unready(self._core)
