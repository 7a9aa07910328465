"""`gpufleet dead-letters list | show | redrive | discard`: what no worker could handle, and what becomes of it."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import API, Api, AsJson, Key, Limit

app = typer.Typer(help="Messages that no worker could handle.", no_args_is_help=True)

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue that they belong to, as `dead-letters list` names it.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="Ids of messages.")]
All = Annotated[bool, typer.Option("--all", help="All dead letters of the queue.")]
_PAGE = 1000
"""How many are asked for at once; the API lists no more."""
_BATCH = 100
"""How many are settled by one request, so that a long work shows how far it is."""


@app.command("list")
def list_all(
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="List the dead letters of this queue.")] = None,
    api: Api = API,
    key: Key = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List the queues and how many dead letters each has, or the dead letters of one."""
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        answer = client.dead_letters(queue, limit=limit) if queue is not None else client.dead_letter_queues()
    if as_json:
        output.write_json(answer)
    elif queue is not None:
        rows = [
            (
                id_of(one),
                _attributes(one).get("message_id"),
                reference_of(one),
                output.moment(one.get("sent_at")),
                _attributes(one).get("reason"),
                _excerpt(one),
            )
            for one in letters(answer)
        ]
        output.table(("ID", "REJECTION", "REFERENCE", "SENT", "REASON", "BODY"), rows, empty="no dead letters")
    else:
        output.table(("QUEUE", "DEAD LETTERS"), queues(answer), empty="no queues")


@app.command()
def show(
    queue: Queue, message_id: Annotated[str, typer.Argument(metavar="ID")], api: Api = API, key: Key = None, as_json: AsJson = False
) -> None:
    """Show one dead letter with its whole body."""
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        answer = client.dead_letter(queue, message_id)
    if as_json:
        output.write_json(answer)
        return
    one = answer.get("dead_letter", answer)
    known = [("id", id_of(one)), ("rejection", _attributes(one).get("message_id")), ("reference", reference_of(one))]
    output.pairs([*known, ("sent", output.moment(one.get("sent_at"))), ("attributes", one.get("attributes"))])
    output.write_text(f"\n{_readable(one.get('body', ''))}")


@app.command()
def redrive(queue: Queue, message_ids: Ids = None, every: All = False, api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Send dead letters back to their queue, to be handled once more."""
    _settle(queue, "redrive", message_ids or [], every=every, api=api, key=key, as_json=as_json)


@app.command()
def discard(queue: Queue, message_ids: Ids = None, every: All = False, api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Delete dead letters for ever."""
    _settle(queue, "discard", message_ids or [], every=every, api=api, key=key, as_json=as_json)


def _settle(queue: str, verb: str, message_ids: list[str], *, every: bool, api: str, key: str | None, as_json: bool) -> None:
    from workers.cli.client import FleetClient

    if every == bool(message_ids):
        raise CommandError("either ids of messages or --all must be given", code=ExitCode.USAGE)
    settled: list[str] = []
    with FleetClient(api, key) as client:
        if message_ids:
            _in_batches(client, queue, verb, message_ids, settled)
        else:
            _all(client, queue, verb, settled)
    if as_json:
        output.write_json({"queue": queue, verb: settled})
    else:
        done = {"redrive": "sent back to", "discard": "deleted of"}[verb]
        output.write(f"{len(settled)} dead letter{'s' if len(settled) != 1 else ''} {done} {queue}")


def _all(client: Any, queue: str, verb: str, settled: list[str]) -> None:
    """A thousand are listed at once, so again until none is left of those that were there; what is sent back can come again at once."""
    found = letters(client.dead_letters(queue, limit=_PAGE))
    began = client.asked_at()
    while chosen := [id_of(one) for one in found]:
        _in_batches(client, queue, verb, chosen, settled)
        found = [one for one in letters(client.dead_letters(queue, limit=_PAGE)) if _sent_before(one, began)]


def _sent_before(one: dict[str, Any], moment: datetime) -> bool:
    sent = one.get("sent_at")
    return isinstance(sent, str) and datetime.fromisoformat(sent) <= moment


def _in_batches(client: Any, queue: str, verb: str, chosen: list[str], settled: list[str]) -> None:
    from rich.progress import Progress

    batches = [chosen[begin : begin + _BATCH] for begin in range(0, len(chosen), _BATCH)]
    with Progress(console=output.err(), transient=True, disable=len(batches) < 2 or not sys.stderr.isatty()) as progress:
        for batch in progress.track(batches, description=verb):
            client.settle(queue, verb, batch)
            settled += batch


def letters(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The dead letters of a list."""
    return list(answer.get("dead_letters") or answer.get("messages") or [])


def queues(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    """Queues and their counts, of either shape."""
    found = answer.get("queues") or {}
    if isinstance(found, dict):
        return sorted(found.items())
    return [(str(one.get("queue") or one.get("name")), one.get("count", one.get("dead_letters"))) for one in found]


def id_of(one: dict[str, Any]) -> str:
    """The id of a dead letter."""
    return str(one.get("message_id") or one.get("id"))


def _attributes(one: dict[str, Any]) -> dict[str, Any]:
    return one.get("attributes") or {}


def reference_of(one: dict[str, Any]) -> str | None:
    """What its producer calls the message, where its body can be read and says so."""
    try:
        document = json.loads(one.get("body") or "", strict=False)
    except (ValueError, RecursionError):
        return None
    found = document.get("reference") if isinstance(document, dict) else None
    return found if isinstance(found, str) else None


def _excerpt(one: dict[str, Any]) -> str:
    text = " ".join(str(one.get("body") or one.get("excerpt") or "").split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _readable(body: str) -> str:
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body
