"""`python -m workers.dispatcher --region R`: one dispatcher of a region. Any number may run beside it."""

from __future__ import annotations

import argparse
import asyncio

from shared.aws import connect
from shared.clusters.reaching import reach
from shared.settings import Settings
from shared.store.beats import Beats
from workers.assembly import assemble
from workers.beating import beating
from workers.dispatcher.build import build
from workers.probing import LoopVitals, probed
from workers.process import owner, serve


async def main(region: str, stop: asyncio.Event) -> None:
    """Dispatch the jobs of a region until asked to stop."""
    settings = Settings()
    async with (
        connect(settings.control_region, "dynamodb", "sqs", "s3") as aws,
        reach(settings, region, pool_size=settings.dispatch_slots) as api,
    ):
        core = await assemble(settings, aws, regions=[region])
        loop = await build(core, aws.sqs, api, region=region, owner=owner(region))
        async with (
            beating(Beats(core.table), loop.passes, worker="dispatcher", region=region, clock=core.clock),
            probed(settings, LoopVitals(loop.passes), stop),
        ):
            await loop.run(stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", required=True)
    arguments = parser.parse_args()
    serve(lambda stop: main(arguments.region, stop), worker="dispatcher", region=arguments.region)
