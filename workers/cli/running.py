"""`gpufleet up` and `gpufleet demo`: a whole fleet on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("up")(up)
    app.command("demo")(demo)


def up(
    api_port: Annotated[int, typer.Option(min=1, max=65535, help="Where the API listens, on 127.0.0.1.")] = 8080,
    regions: Annotated[str, typer.Option(help="Regions, separated by commas.")] = "us-east-1,eu-west-1",
    nodes: Annotated[str | None, typer.Option(help="Machines of each simulated cluster, such as 4xg5.12xlarge:spot,2xm5.4xlarge.")] = None,
    dispatchers: Annotated[int, typer.Option(min=1, max=32, help="Dispatchers of each region.")] = 1,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Use real clusters: a kubeconfig with one context for each region, named as the region.")
    ] = None,
    state: Annotated[Path, typer.Option(help="Where the log files and the kubeconfig go.")] = Path(".gpufleet"),
) -> ExitCode:
    """Start the embedded fleet: AWS emulator, a cluster per region, API and workers. Ctrl-C ends all of it."""
    _require_packages()
    from workers.local.options import DEFAULT_NODES, Options
    from workers.local.up import run

    wanted = tuple(part.strip() for part in regions.split(",") if part.strip())
    try:
        options = Options(
            regions=wanted,
            nodes=nodes or DEFAULT_NODES,
            dispatchers=dispatchers,
            api_port=api_port,
            kubeconfig=kubeconfig,
            state=state,
        )
    except ValueError as error:
        raise CommandError(str(error), code=ExitCode.USAGE) from error
    import asyncio

    return ExitCode(asyncio.run(run(options, output.err())))


def demo() -> ExitCode:
    """Run 60 jobs on an embedded fleet, kill a dispatcher meanwhile, and check every figure at the end."""
    _require_packages()
    import asyncio

    from workers.local.demo import run

    return ExitCode(asyncio.run(run(output.out())))


def _require_packages() -> None:
    """Raises CommandError where only the clients are installed, before anything is started."""
    from importlib.util import find_spec

    missing = [name for name in ("ministack", "aiohttp") if find_spec(name) is None]
    if missing:
        told = f"the embedded fleet needs {' and '.join(missing)}: pip install 'gpufleet[local]'"
        raise CommandError(told, code=ExitCode.USAGE)
