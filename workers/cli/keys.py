"""`gpufleet keys create | list | revoke`: who may call the API, and what they may do."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from workers.cli import output
from workers.cli.durations import seconds_of
from workers.cli.options import API, Api, AsJson, Key

app = typer.Typer(help="Keys of the API's callers.", no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Option("--name", help="What records will say: submitted by key:NAME.")],
    may: Annotated[str, typer.Option("--may", help="Rights, separated by commas: read, submit, admin.")],
    namespaces: Annotated[str | None, typer.Option("--namespaces", help="Where, separated by commas; everywhere, unless said.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", metavar="TIME", help="After how long, such as 90d, 12h, 30m, 60s.")] = None,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it. It is shown this once; what is kept of it is a hash."""
    from workers.cli.client import FleetClient

    wanted: dict[str, Any] = {"name": name, "rights": _parts(may)}
    if namespaces is not None:
        wanted["namespaces"] = _parts(namespaces)
    if expires is not None:
        wanted["expires_in_seconds"] = seconds_of(expires, field="--expires")
    with FleetClient(api, key) as client:
        made = client.create_key(wanted)
    if as_json:
        output.write_json(made)
        return
    output.say(f"key {made['id']} for {name}: {_rights(made)}; keep it, it is not shown again")
    output.write(made["key"])


@app.command("list")
def list_all(api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """List the keys and what each may do."""
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        answer = client.keys()
    if as_json:
        output.write_json(answer)
        return
    rows = [
        (one["id"], one.get("name"), _rights(one), output.moment(one.get("created_at")), _expiry(one), one.get("created_by"))
        for one in answer["keys"]
    ]
    output.table(("ID", "NAME", "MAY", "MADE", "EXPIRES", "BY"), rows, empty="no keys")


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name or its id.")],
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key. Every API process takes it for one minute more at most."""
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        gone = client.revoke_key(name)
    if as_json:
        output.write_json(gone)
    else:
        output.write(f"key {gone['id']} ({gone.get('name')}) is revoked; API processes that know it take it for one minute more at most")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _rights(one: dict[str, Any]) -> str:
    where = one.get("namespaces")
    return f"{','.join(one.get('rights') or ())} in {','.join(where) if where is not None else 'all namespaces'}"


def _expiry(one: dict[str, Any]) -> str:
    return output.moment(one["expires_at"]) if one.get("expires_at") else "never"
