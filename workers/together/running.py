"""The API and the loops of one region's workers, in one event loop and over one set of clients.

A process that goes on without one of its loops would look well and do half its work. So when one ends, the API says that it isn't ready,
goes on answering for a while, so that load balancers can turn away from it, and then the process ends, to be started anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import structlog

from shared.aws import connect
from shared.clusters.reaching import reach
from shared.errors import FleetError
from shared.settings import Settings
from shared.store.beats import Beats
from workers import assembly
from workers.api import core as doors
from workers.api.cluster_access import ClusterAccess
from workers.api.server import ServerSettings, check_identity, serve_core
from workers.beating import beating
from workers.loops import Loop
from workers.together.parts import OF_A_REGION, Ground, Part, Run, build, services

log = structlog.get_logger()

LINGER_SECONDS: Final = 15.0
"""How long the API goes on when a loop has ended: load balancers ask every five or ten seconds whether it is ready."""


class LoopEndedError(FleetError):
    """Loops ended though nobody asked them to; the log says why."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"ended, and so the process with it: {', '.join(names)}")


async def run(
    settings: Settings, where: ServerSettings, region: str, names: Sequence[str], stop: asyncio.Event, *, linger: float = LINGER_SECONDS
) -> None:
    """Serve, and run the named loops for a region, until asked to stop.

    Raises what the API and the loops raise at their start, and LoopEndedError.
    """
    check_identity(settings, where.host)
    async with _put_together(settings, region, names) as (core, parts), AsyncExitStack() as stack:
        for name, part in parts.items():
            if part.passes is not None:
                of = region if name in OF_A_REGION else None
                tells = beating(Beats(core.table), part.passes, worker=name, region=of, clock=core.clock)
                await stack.enter_async_context(tells)
        await together(core, parts, where, stop, linger=linger)


async def together(core: doors.Core, parts: dict[str, Part], where: ServerSettings, stop: asyncio.Event, *, linger: float) -> None:
    """Serve and run the loops until asked to stop. Raises LoopEndedError."""
    ending = asyncio.Event()
    for name, part in parts.items():
        task = asyncio.create_task(_running(part.run, ending))
        core.loops.add(Loop(name=name, task=task, owner=part.owner, passes=part.passes))
    serving = asyncio.create_task(serve_core(core, where, ending))
    asked = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([asked, serving, *core.loops.tasks], return_when=asyncio.FIRST_COMPLETED)
        ended = core.loops.ended()
        if ended and not stop.is_set():
            await asyncio.wait([asked, serving], timeout=linger, return_when=asyncio.FIRST_COMPLETED)
            ended = core.loops.ended()
    finally:
        core.loops.stopping = True
        ending.set()
        asked.cancel()
        await asyncio.gather(serving, *core.loops.tasks, return_exceptions=True)
    serving.result()
    if ended:
        raise LoopEndedError(ended)


async def _running(run: Run, ending: asyncio.Event) -> None:
    """A loop whose end is told at once, not when somebody asks for its result."""
    try:
        await run(ending)
    except Exception:
        log.exception("loop failed")
        raise
    if not ending.is_set():
        log.error("loop ended")


@asynccontextmanager
async def _put_together(settings: Settings, region: str, names: Sequence[str]) -> AsyncIterator[tuple[doors.Core, dict[str, Part]]]:
    """The API's core for a region, and the parts that were named."""
    async with AsyncExitStack() as stack:
        needed = {"dynamodb", "sqs", "s3", "secretsmanager", *services(names)}
        aws = await stack.enter_async_context(connect(settings.control_region, *needed))
        access = ClusterAccess(settings)
        stack.push_async_callback(access.close)
        core = await doors.build(settings, aws, access=access, region=region)
        api = await stack.enter_async_context(reach(settings, region, pool_size=settings.dispatch_slots))
        shared = await assembly.assemble(settings, aws)
        yield core, await build(names, Ground(settings=settings, region=region, aws=aws, shared=shared, api=api, stack=stack))
