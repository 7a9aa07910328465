"""What calls the scheduled functions of a fleet without stacks, oftener than EventBridge would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from infra.functions import FUNCTIONS, ScheduleSource
from tests.infra.fleet import EnforcedFleet

_SECONDS = {"sweeper": 1.0, "webhooks-sweep": 1.0, "metrics": 5.0, "costs": 10.0}
"""How often; the health is asked for when there is something to tell of all of it, since what it has read it keeps. GPUs are scraped in one
region only, so that of another one nothing is there to be read."""


@asynccontextmanager
async def schedules(fleet: EnforcedFleet) -> AsyncIterator[list[str]]:
    """Call them as long as the block lasts; the list has what they failed with."""
    failures: list[str] = []

    async def call(function: str, payload: str) -> None:
        while True:
            try:
                await fleet.invoke(f"gpufleet-{function}", payload)
            except AssertionError as error:
                failures.append(str(error))
            await asyncio.sleep(_SECONDS[function])

    tasks = [
        asyncio.create_task(call(function.name, json.dumps(payload)))
        for function in FUNCTIONS
        for source in function.sources
        if isinstance(source, ScheduleSource) and function.name in _SECONDS
        for payload in source.payloads(fleet.options.regions[:1])
    ]
    try:
        yield failures
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
