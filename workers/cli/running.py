"""`gpufleet up` and `gpufleet demo`: a whole fleet on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode, Fault

if TYPE_CHECKING:
    from workers.local.options import Options
    from workers.local.refusals import Refusal


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("up")(up)
    app.command("demo")(demo)


def up(
    api_port: Annotated[int, typer.Option(min=1, max=65535, help="The API's port.")] = 8080,
    host: Annotated[str, typer.Option(help="Where the API listens; off the loopback interface only with --identity.")] = "127.0.0.1",
    identity: Annotated[str | None, typer.Option(help="Who may call: 'keys' makes a first administrator's key.")] = None,
    regions: Annotated[str, typer.Option(help="Regions, separated by commas.")] = "us-east-1,eu-west-1",
    nodes: Annotated[str | None, typer.Option(help="Machines of each simulated cluster; see above.")] = None,
    dispatchers: Annotated[int, typer.Option(min=1, max=32, help="Dispatchers of each region.")] = 1,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Use real clusters: a kubeconfig with one context for each region, named as the region.")
    ] = None,
    state: Annotated[Path, typer.Option(help="Where the log files and the kubeconfig go; one fleet at a time.")] = Path(".gpufleet"),
) -> ExitCode:
    """Start the embedded fleet: AWS emulator, a cluster per region, API and workers. Ctrl-C ends all of it.

    --nodes names COUNTxTYPE:CAPACITY, separated by commas, at most 1,000 machines a region:

    4xg5.12xlarge:spot,2xm5.4xlarge

    Unless said, each region has

    2xg5.12xlarge,1xp4d.24xlarge,1xg5.12xlarge:spot,2xm7i.48xlarge,1xg4ad.16xlarge

    GPUFLEET_… settings of the environment reach the workers, such as GPUFLEET_POLICY_FILE; what up decides itself can't be set so.
    """
    _require_packages()
    from workers.local.refusals import Refusal, UnusableError
    from workers.local.up import run

    if nodes is not None and kubeconfig is not None:
        raise refused([Refusal("--nodes", nodes, "must be without --kubeconfig, whose clusters have their own machines")])
    try:
        options = _options(regions, nodes, api_port, host, identity, dispatchers=dispatchers, kubeconfig=kubeconfig, state=state)
        import asyncio

        return ExitCode(asyncio.run(run(options, output.err())))
    except UnusableError as error:
        raise refused(error.refusals) from error


def _options(regions: str, nodes: str | None, api_port: int, host: str, identity: str | None, **others: Any) -> Options:
    """The options with the user's settings. Raises UnusableError."""
    from workers.local.options import DEFAULT_NODES, Options
    from workers.local.user_settings import of_user

    wanted = tuple(part.strip() for part in regions.split(",")) if regions.strip() else ()
    decided = {"GPUFLEET_REGIONS": ",".join(wanted), "GPUFLEET_API_PORT": str(api_port), "GPUFLEET_API_HOST": host}
    given, unknown = of_user(os.environ, **decided)
    if identity is not None:
        given["GPUFLEET_IDENTITY"] = identity
    for name in unknown:
        output.say(f"{name}: no setting of this name is known; it changes nothing")
    nodes = DEFAULT_NODES if nodes is None else nodes
    return Options(regions=wanted, nodes=nodes, api_port=api_port, api_host=host, settings=given, **others)


def refused(refusals: Sequence[Refusal]) -> CommandError:
    """The error of what the embedded fleet, or a program on AWS itself, can't be started with."""
    if len(refusals) == 1:
        (one,) = refusals
        return CommandError.at(one.field, one.value, one.rule)
    faults = [Fault(one.field, one.value or "(empty)", one.rule) for one in refusals]
    return CommandError(f"{len(faults)} settings can't be used", code=ExitCode.USAGE, faults=faults)


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
