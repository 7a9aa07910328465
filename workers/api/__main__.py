"""`python -m workers.api`: the API on the loopback interface."""

from __future__ import annotations

import asyncio

from shared.settings import Settings, load
from workers.api.server import ServerSettings, serve
from workers.process import serve as run


async def main(stop: asyncio.Event) -> None:
    """Serve until asked to stop."""
    await serve(load(Settings), load(ServerSettings), stop)


if __name__ == "__main__":
    run(main, worker="api")
