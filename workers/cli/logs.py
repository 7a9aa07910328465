"""`gpufleet logs ID`: what a job's containers wrote, also after their pods are gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import API, Api, AsJson, JobId, Key


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("logs")(logs)


def logs(
    job_id: JobId,
    api: Api = API,
    key: Key = None,
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
    with FleetClient(api, key) as client:
        if as_json and execution is None:
            execution = newest_with_logs(client.job(job_id))
        lines = client.logs(job_id, follow=follow, execution=execution, pod=pod, container=container, tail=tail)
        if as_json:
            output.write_json({"job_id": job_id, "execution": execution, "lines": list(lines)})
            return
        for line in lines:
            output.write_log(line)


def newest_with_logs(record: Mapping[str, Any]) -> int:
    """Which execution the API shows the log of where none is named: the current one, or the one before while that waits for a cluster."""
    number = int(record.get("execution") or 1)
    current: Mapping[str, Any] = next((one for one in record.get("executions") or [] if one.get("number") == number), {})
    waits = current.get("object") is None and record.get("state") not in {"pending", "running"}
    return number - 1 if number > 1 and waits else number
