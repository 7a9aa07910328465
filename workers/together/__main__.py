"""`python -m workers.together --region R`: the API and every worker that a small region needs as one process.

`--loops dispatcher` runs the API with the dispatcher alone beside it, as the original's API does; the others are then programs of their
own. The metrics worker runs here only where it is named: it serves `/metrics` at a port of its own, and writes to CloudWatch, which costs.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from shared.settings import Settings, load
from workers.api.server import ServerSettings
from workers.process import serve
from workers.together.parts import DEFAULT, NAMES
from workers.together.running import run


def _loops(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(NAMES)}")
    return names


def main(arguments: list[str]) -> None:
    """Run until asked to stop."""
    parser = argparse.ArgumentParser(prog="python -m workers.together", description=__doc__)
    parser.add_argument("--region", required=True)
    told = f"which of {', '.join(NAMES)}, separated by commas; all but metrics, unless said"
    parser.add_argument("--loops", type=_loops, default=DEFAULT, help=told)
    chosen = parser.parse_args(arguments)

    async def together(stop: asyncio.Event) -> None:
        await run(load(Settings), load(ServerSettings), chosen.region, chosen.loops, stop)

    serve(together, worker="together", region=chosen.region)


if __name__ == "__main__":
    main(sys.argv[1:])
