"""`python -m tests.e2e.tour`: an embedded fleet of its own, and docs/api-tour.sh against it. The exit code is the script's."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from workers.local.fleet import EmbeddedFleet

SCRIPT = Path(__file__).parents[2] / "docs" / "api-tour.sh"


async def tour() -> int:
    async with EmbeddedFleet() as fleet:
        # The script's python3 is this one, which has boto3.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        process = await asyncio.create_subprocess_exec(
            SCRIPT, env=os.environ | fleet.aws_env | {"GPUFLEET_API": fleet.api_url, "PATH": path}
        )
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(tour()))
