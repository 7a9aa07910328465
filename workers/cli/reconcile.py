"""`gpufleet reconcile`: after the table was restored to a point in time. It works on AWS and on the clusters, not through the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import AsJson

if TYPE_CHECKING:
    from workers.reconciling import Settled

_MEANING = {
    "take up": "its object is taken up",
    "ran": "it ran and is gone: failed",
    "untraced": "nobody can say whether it ran: failed",
    "forgotten": "not in the table: its object is left alone",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reconcile")(reconcile)


def reconcile(
    restored_to: Annotated[
        str,
        typer.Option("--restored-to", metavar="TIME", help="The point in time that it was restored to, as 2026-11-30T12:00:00Z."),
    ],
    apply: Annotated[bool, typer.Option("--apply", help="Drain every region and write it; without, it is only told.")] = False,
    as_json: AsJson = False,
) -> None:
    """Tell the table what clusters and bucket know of its jobs since the point in time that it was restored to.

    No dispatcher, observer, sweeper or ingest may run meanwhile. It needs AWS credentials, a way to every region's cluster
    (GPUFLEET_KUBECONFIG or GPUFLEET_EKS_CLUSTERS) and the settings of the fleet. It may be run again.
    """
    import asyncio

    from pydantic import ValidationError

    from shared.errors import FleetError
    from workers.cli.running import refused
    from workers.local.user_settings import faults_of

    moment = _moment(restored_to)
    try:
        settled = asyncio.run(_reconcile(moment, apply=apply))
    except ValidationError as error:
        raise refused(faults_of(error)) from error
    except FleetError as error:
        raise CommandError(str(error), code=ExitCode.UNREACHABLE) from error
    if as_json:
        output.write_json({"restored_to": moment.isoformat(), "applied": apply, "jobs": [_document(one) for one in settled]})
        return
    columns = ("ID", "FOUND", "NAME", "NAMESPACE", "REGION", "EXECUTION", "OBJECT", "WRITTEN")
    output.table(columns, [_row(one) for one in settled], empty="the table tells nothing wrong")
    for found in dict.fromkeys(one.finding.found.value for one in settled):
        output.say(f"{found}: {_MEANING[found]}")


async def _reconcile(restored_to: datetime, *, apply: bool) -> Sequence[Settled]:
    from shared.aws import connect
    from shared.settings import Settings
    from workers.reconciling import reconcile

    settings = Settings()
    async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
        return await reconcile(settings, aws, restored_to=restored_to, apply=apply)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError.at("--restored-to", text, "must be a time, as 2026-11-30T12:00:00Z") from None
    if moment.tzinfo is None:
        raise CommandError.at("--restored-to", text, "must say its zone, as in 2026-11-30T12:00:00Z")
    if moment > datetime.now(UTC):
        raise CommandError.at("--restored-to", text, "must not be in the future")
    return moment


def _document(one: Settled) -> dict[str, Any]:
    finding = one.finding
    head, seen = finding.head, finding.seen
    return {
        "job_id": finding.job_id,
        "found": finding.found.value,
        "name": head.name if head else None,
        "namespace": head.namespace if head else seen.namespace if seen else None,
        "region": finding.region or (head.region if head else None),
        "execution": seen.execution if seen else head.execution if head else None,
        "object": seen.name if seen else None,
        "written": one.written,
    }


def _row(one: Settled) -> tuple[Any, ...]:
    told = _document(one)
    return tuple(told[name] for name in ("job_id", "found", "name", "namespace", "region", "execution", "object", "written"))
