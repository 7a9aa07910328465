"""`python -m workers.webhooks`: tells webhooks of events. Any number may run. `--without-stream` where the relay runs on Lambda."""

from __future__ import annotations

import argparse
import asyncio

from shared.aws import connect
from shared.clock import SystemClock
from shared.settings import Settings
from shared.store.beats import Beats
from workers.beating import beating
from workers.probing import LoopVitals, probed
from workers.process import serve
from workers.webhooks.build import SERVICES, build, stream_loop
from workers.webhooks.loop import WebhookLoop


async def main(stop: asyncio.Event, *, stream: bool) -> None:
    """Tell webhooks of events until asked to stop."""
    settings = Settings()
    async with connect(settings.control_region, *SERVICES, *(["dynamodbstreams"] if stream else [])) as aws:
        parts = await build(settings, aws)
        loop = WebhookLoop(parts, stream=stream_loop(parts, aws) if stream else None)
        async with (
            beating(Beats(parts.table), loop.passes, worker="webhooks", clock=SystemClock()),
            probed(settings, LoopVitals(loop.passes), stop),
        ):
            await loop.run(stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m workers.webhooks", description=__doc__)
    parser.add_argument("--without-stream", action="store_true", help="leave the table's stream to others")
    chosen = parser.parse_args()
    serve(lambda stop: main(stop, stream=not chosen.without_stream), worker="webhooks")
