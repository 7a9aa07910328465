"""`python -m workers.sweeper`: one sweeper for all regions. A second one may run beside it."""

from __future__ import annotations

import asyncio

from shared.aws import connect
from shared.settings import Settings
from shared.store.beats import Beats
from workers.assembly import assemble
from workers.beating import beating
from workers.probing import LoopVitals, probed
from workers.process import serve
from workers.sweeper.build import SERVICES, build


async def main(stop: asyncio.Event) -> None:
    """Sweep every region until asked to stop."""
    settings = Settings()
    async with connect(settings.control_region, *SERVICES) as aws:
        core = await assemble(settings, aws)
        loop = build(core, aws)
        async with (
            beating(Beats(core.table), loop.passes, worker="sweeper", clock=core.clock),
            probed(settings, LoopVitals(loop.passes), stop),
        ):
            await loop.run(stop)


if __name__ == "__main__":
    serve(main, worker="sweeper")
