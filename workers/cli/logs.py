"""`gpufleet logs ID`: what a job's containers wrote, also after their pods are gone."""

from __future__ import annotations

from typing import Annotated

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import API, Api, AsJson, JobId


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("logs")(logs)


def logs(
    job_id: JobId,
    api: Api = API,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    execution: Annotated[int | None, typer.Option(min=1, help="Of this execution; the newest, unless said.")] = None,
    pod: Annotated[str | None, typer.Option(help="Of this pod alone.")] = None,
    container: Annotated[str | None, typer.Option(help="Of this container alone.")] = None,
    tail: Annotated[int | None, typer.Option(min=1, max=10_000, help="The last lines of each container.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the log of a job."""
    from workers.cli.client import FleetClient

    if follow and as_json:
        raise CommandError("--json: a log that is followed has no end, so it can't be one JSON document", code=ExitCode.USAGE)
    with FleetClient(api) as client:
        if follow:
            for line in client.follow_logs(job_id, execution=execution, pod=pod, container=container, tail=tail):
                output.write(line)
            return
        answer = client.logs(job_id, execution=execution, pod=pod, container=container, tail=tail)
    if as_json:
        output.write_json(answer)
        return
    _show(answer)


def _show(answer: dict[str, object]) -> None:
    """Each container under a line with its name, where there are several."""
    parts = answer.get("logs")
    if isinstance(parts, str):
        output.write(parts.rstrip("\n"))
        return
    found = parts if isinstance(parts, list) else []
    if not found:
        output.say("no log yet")
    for part in found:
        if len(found) > 1:
            output.say(f"== {part.get('pod')}/{part.get('container')}")
        lines = part.get("lines")
        text = "\n".join(lines) if isinstance(lines, list) else str(part.get("text", part.get("log", "")))
        if text:
            output.write(text.rstrip("\n"))
