"""`gpufleet reconcile`: after the table was restored to a point in time. It works on AWS and on the clusters, not through the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import AsJson

if TYPE_CHECKING:
    from workers.reconciling import Report, Settled

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
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", metavar="REGION", help="A region whose cluster is no more; what ran there isn't looked for."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell the table what clusters and bucket know of its jobs since the point in time that it was restored to.

    No dispatcher, observer, sweeper or ingest may run meanwhile. It needs AWS credentials, a way to every region's cluster
    (GPUFLEET_KUBECONFIG or GPUFLEET_EKS_CLUSTERS) and the settings of the fleet. It may be run again.

    It says at which clusters it looked, and refuses to leave out a region that the table knows unless it is named with --leave-out.
    """
    import asyncio

    from pydantic import ValidationError

    from shared.errors import FleetError, InvalidError
    from workers.cli.running import refused
    from workers.local.user_settings import faults_of

    moment = _moment(restored_to)
    try:
        report = asyncio.run(_reconcile(moment, apply=apply, leave_out=leave_out or []))
    except ValidationError as error:
        raise refused(faults_of(error)) from error
    except InvalidError as error:
        raise CommandError.of(error.problems, told="nothing was looked at and nothing was written") from error
    except FleetError as error:
        raise CommandError(str(error), code=ExitCode.UNREACHABLE) from error
    if as_json:
        output.write_json({"restored_to": moment.isoformat(), "applied": apply, **_report(report)})
        return
    columns = ("ID", "FOUND", "NAME", "NAMESPACE", "REGION", "EXECUTION", "OBJECT", "WRITTEN")
    output.table(columns, [_row(one) for one in report.settled], empty="of what was looked at, the table tells nothing wrong")
    _say(report)


def _say(report: Report) -> None:
    for found in dict.fromkeys(one.finding.found.value for one in report.settled):
        output.say(f"{found}: {_MEANING[found]}")
    for one in report.looked:
        output.say(f"looked at {one.region} ({one.cluster}): {one.objects} object{'' if one.objects == 1 else 's'}")
    for region in report.left_out:
        output.say(f"not looked at {region}, as was asked")
    for beat in report.running:
        of = f" of {beat.region}" if beat.region else ""
        output.say(
            f"warning: worker {beat.worker}{of} seems to run, and must not: {beat.owner} told so at {output.moment(beat.at.isoformat())}"
        )


async def _reconcile(restored_to: datetime, *, apply: bool, leave_out: list[str]) -> Report:
    from shared.aws import connect
    from shared.clusters.reaching import missing_kubeconfig
    from shared.errors import InvalidError
    from shared.settings import Settings
    from workers.reconciling import reconcile

    settings = Settings()
    if (missing := missing_kubeconfig(settings)) is not None:
        raise InvalidError([missing])
    async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
        return await reconcile(settings, aws, restored_to=restored_to, apply=apply, leave_out=leave_out)


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


def _report(report: Report) -> dict[str, Any]:
    return {
        "jobs": [_document(one) for one in report.settled],
        "regions": [{"region": one.region, "cluster": one.cluster, "objects": one.objects} for one in report.looked],
        "left_out": list(report.left_out),
        "running": [
            {"worker": beat.worker, "region": beat.region, "owner": beat.owner, "told_at": beat.at.isoformat()} for beat in report.running
        ],
    }


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
