"""`python -m workers.observer --region R`: the observer of a region. A second one may run beside it."""

from __future__ import annotations

import argparse
import asyncio

from shared.aws import connect
from shared.clusters.reaching import reach
from shared.costs.sources import region_prices
from shared.settings import Settings
from shared.store.beats import Beats
from workers.assembly import assemble
from workers.beating import beating
from workers.observer.build import build
from workers.observer.usage import usage_account
from workers.probing import LoopVitals, probed
from workers.process import serve


async def main(region: str, stop: asyncio.Event) -> None:
    """Observe the cluster of a region until asked to stop."""
    settings = Settings()
    async with (
        connect(settings.control_region, "dynamodb", "sqs", "s3") as aws,
        reach(settings, region) as api,
    ):
        core = await assemble(settings, aws, regions=[region])
        usage = usage_account(core, api, region_prices(settings, aws, region, core.clock), region=region)
        loop = build(core, api, region=region, usage=usage)
        async with (
            beating(Beats(core.table), loop.passes, worker="observer", region=region, clock=core.clock),
            probed(settings, LoopVitals(loop.passes), stop),
        ):
            await loop.run(stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", required=True)
    arguments = parser.parse_args()
    serve(lambda stop: main(arguments.region, stop), worker="observer", region=arguments.region)
