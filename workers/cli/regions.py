"""`gpufleet regions list | drain | resume`: where jobs are claimed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import API, Api, AsJson, Key

if TYPE_CHECKING:
    from workers.cli.client import FleetClient

app = typer.Typer(help="Regions: which take jobs, and which are drained.", no_args_is_help=True)

Region = Annotated[str, typer.Argument(metavar="REGION", help="A region of the fleet.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; it is shown wherever a job waits for it.")]

_LOOK_SECONDS = 2.0
_PATIENCE = 30
"""How many looks in a row may find no API before a wait gives up: about a minute."""


@app.command("list")
def list_all(api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """List the regions: open, draining while something may still run there, or drained; how, since when, by whom and why."""
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        answer = client.regions()
    if as_json:
        output.write_json(answer)
        return
    columns = ("REGION", "STATE", "QUEUED", "CLAIMED", "PENDING", "RUNNING", "OPTIONS", "SINCE", "BY", "REASON")
    output.table(columns, [_row(one) for one in answer["regions"]], empty="no regions")


@app.command()
def drain(
    region: Region,
    reason: Reason = None,
    move: Annotated[bool, typer.Option("--move/--keep", help="Move queued jobs that may run anywhere, or keep them waiting.")] = True,
    interrupt: Annotated[bool, typer.Option("--interrupt", help="Stop what runs; it starts again, and loses no attempt.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Until nothing is at work there and nothing can come: 10 s at least.")] = False,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Claim nothing more in a region. What runs there goes on to its end, unless --interrupt is given.

    Queued jobs that were submitted to any region are moved to an open one within about a minute. Those that were submitted to this region
    wait until it is resumed, and so do new ones; their limits of time go on. Drained again with other options, these hold.
    """
    from workers.cli.client import FleetClient

    wanted: dict[str, Any] = {"move": move, "interrupt": interrupt}
    if reason is not None:
        wanted["reason"] = reason
    with FleetClient(api, key) as client:
        _require_name(client, region)
        found: Mapping[str, Any] = client.drain(region, wanted)
        if wait:
            found = until_drained(client, region, found, quiet=as_json)
    _tell(found, as_json=as_json)


@app.command()
def resume(region: Region, reason: Reason = None, api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Claim in a region again, at once."""
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        _require_name(client, region)
        found = client.resume(region, {} if reason is None else {"reason": reason})
    _tell(found, as_json=as_json)


def until_drained(
    client: FleetClient, region: str, found: Mapping[str, Any], *, quiet: bool, pause: Callable[[float], None] = time.sleep
) -> Mapping[str, Any]:
    """Look until nothing is left at work; whatever changes is a line on standard error.

    Raises CommandError where somebody resumes it, or has it drained in another way: what is waited for might never come.
    """
    told, failures, asked = "", 0, found
    while found["state"] == "draining":
        line = _left(found)
        if line != told and not quiet:
            output.say(line)
        told = line
        pause(_LOOK_SECONDS)
        try:
            found = next(one for one in client.regions()["regions"] if one["region"] == region)
            failures = 0
        except CommandError as error:
            failures += 1
            if error.code != ExitCode.UNREACHABLE or failures > _PATIENCE:
                raise
        if found["state"] == "draining":
            _require_same(asked, found)
    if found["state"] != "drained":
        raise CommandError(f"{region} was resumed meanwhile, by {found.get('by')}", code=ExitCode.CONFLICT)
    return found


def _require_same(asked: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raises CommandError where somebody has drained the region anew meanwhile, or otherwise than was asked."""
    before, now = _options(asked), _options(found)
    if (asked["since"], before) == (found["since"], now):
        return
    change = f"options changed by {found.get('by')}: {now} instead of {before}" if before != now else f"drained anew by {found.get('by')}"
    raise CommandError(f"{found['region']}: {change}", code=ExitCode.CONFLICT)


def _require_name(client: FleetClient, region: str) -> None:
    """Raises CommandError that lists the regions for what can't be part of a path, and so never gets to the API."""
    from workers.cli.client import segment

    try:
        segment("Region", region)
    except CommandError as error:
        known = ", ".join(one["region"] for one in client.regions()["regions"])
        raise CommandError(f"{error.message} (the regions of this fleet are {known})", code=error.code) from error


def waits_for(client: FleetClient, region: str) -> str | None:
    """What to tell who has submitted jobs to a region: that it is drained, if it is. An API that can't say says nothing."""
    try:
        found = next((one for one in client.regions()["regions"] if one["region"] == region), None)
    except CommandError:
        return None
    if found is None or found["state"] == "open":
        return None
    why = f": {found['reason']}" if found.get("reason") else ""
    return f"{region} is drained since {output.moment(found['since'])} by {found['by']}{why}; jobs wait until it is resumed"


def _tell(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.write_json(found)
    else:
        output.write(_left(found))


def _left(found: Mapping[str, Any]) -> str:
    jobs = found.get("jobs") or {}
    counts = ", ".join(f"{number} {state}" for state, number in jobs.items() if number)
    return f"{found['region']} is {found['state']}{f' ({counts})' if counts else ''}"


def _options(one: Mapping[str, Any]) -> str:
    return f"{'move' if one.get('move') else 'keep'}{', interrupt' if one.get('interrupt') else ''}"


def _row(one: Mapping[str, Any]) -> tuple[Any, ...]:
    jobs = one.get("jobs") or {}
    counts = (jobs.get(state) for state in ("queued", "claimed", "pending", "running"))
    options = None if one["state"] == "open" else _options(one)
    return (one["region"], one["state"], *counts, options, output.moment(one["since"]), one["by"], one["reason"])
