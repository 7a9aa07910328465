"""`gpufleet rejections [ID]`: messages on the submissions queue that did not become jobs, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import Fault, shown
from workers.cli.options import API, Api, AsJson, Cursor, Key, Limit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rejections")(rejections)


def rejections(
    rejection_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Show this one whole.")] = None,
    api: Api = API,
    key: Key = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List refused messages, newest first, or show one with all its faults."""
    from workers.cli.client import FleetClient
    from workers.cli.jobs import more

    with FleetClient(api, key) as client:
        answer = client.rejection(rejection_id) if rejection_id is not None else client.rejections(limit=limit, cursor=cursor)
    if as_json:
        output.write_json(answer)
    elif rejection_id is not None:
        _page(answer.get("rejection", answer))
    else:
        rows = [(one["id"], output.moment(one.get("rejected_at")), one.get("reference"), _why(one)) for one in answer["rejections"]]
        output.table(("ID", "TIME", "REFERENCE", "WHY"), rows, empty="no rejections")
        more(answer)


def _why(one: dict[str, Any]) -> str:
    problems = one.get("problems") or []
    first = f"{problems[0].get('pointer') or '/'}: {problems[0].get('rule')}" if problems else one.get("reason")
    return f"{first} (and {len(problems) - 1} more)" if len(problems) > 1 else str(first)


def _page(one: dict[str, Any]) -> None:
    output.pairs(
        [
            ("id", one.get("id")),
            ("message", one.get("message_id")),
            ("queue", one.get("queue")),
            ("time", output.moment(one.get("rejected_at"))),
            ("reference", one.get("reference")),
            ("reason", one.get("reason")),
        ]
    )
    for problem in one.get("problems") or []:
        output.write(f"  {Fault(problem.get('pointer') or '/', shown(problem.get('value')), str(problem.get('rule')))}")
    if one.get("excerpt"):
        output.write_text(f"\n{one['excerpt']}")
