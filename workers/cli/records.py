"""Job records as tables and pages for people. What the API adds one day is shown by `--json` and passed over here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from workers.cli import output

TERMINAL = frozenset({"succeeded", "failed", "cancelled"})

Record = Mapping[str, Any]


_NAMES = {
    "job_id": "id",
    "job_name": "name",
    "target_region": "region",
    "status": "state",
    "completed_at": "finished_at",
    "error_message": "message",
}
"""What the job queue's door calls the things that the fleet's own door, and so the command, knows under another name."""
_SUMMARY = (
    *("id", "name", "namespace", "region", "state", "priority", "labels"),
    *("submitted_at", "submitted_by", "updated_at", "finished_at", "message"),
)


def record(found: Record) -> dict[str, Any]:
    """A job's record for programs: whichever door it came from, under the same names, and with everything else that the door tells."""
    return {_NAMES.get(name, name): value for name, value in found.items()}


def summary(found: Record) -> dict[str, Any]:
    """The part of a record that both doors tell."""
    known = record(found)
    return {name: known.get(name) for name in _SUMMARY}


def state_of(record: Record) -> str:
    """The state of a job, under either of its names."""
    return str(record.get("state") or record.get("status") or "unknown")


def id_of(record: Record) -> str:
    """The id of a job, under either of its names."""
    return str(record.get("job_id") or record.get("id"))


def name_of(record: Record) -> str:
    """The name of a job, under either of its names."""
    return str(record.get("job_name") or record.get("name") or "-")


def region_of(record: Record) -> str:
    """The region of a job, under either of its names."""
    return str(record.get("region") or record.get("target_region") or "-")


def job_table(records: Iterable[Record], *, wide: bool = False, empty: str = "no jobs") -> None:
    """Jobs, one a line; a wide table has their labels, too."""
    rows = [
        (
            id_of(one),
            name_of(one),
            one.get("namespace"),
            region_of(one),
            state_of(one),
            one.get("priority"),
            output.age(one.get("submitted_at")),
            *([one.get("labels") or None] if wide else []),
            one.get("error_message") or one.get("message"),
        )
        for one in records
    ]
    labels = ("LABELS",) if wide else ()
    output.table(("ID", "NAME", "NAMESPACE", "REGION", "STATE", "PRIORITY", "AGE", *labels, "MESSAGE"), rows, empty=empty)


def job_page(document: Mapping[str, Any]) -> None:
    """All about one job."""
    record = document.get("job", document)
    found = record.get("object") or {}
    output.pairs(
        [
            ("id", id_of(record)),
            ("name", name_of(record)),
            ("namespace", record.get("namespace")),
            ("region", region_of(record)),
            ("state", state_of(record)),
            ("priority", record.get("priority")),
            ("gpus", record.get("gpus")),
            ("labels", record.get("labels")),
            ("submitted", output.moment(record.get("submitted_at"))),
            ("submitted by", record.get("submitted_by")),
            ("started", record.get("started_at") and output.moment(record.get("started_at"))),
            ("finished", record.get("finished_at") and output.moment(record.get("finished_at"))),
            ("failed attempts", record.get("attempts")),
            ("interruptions", record.get("interruptions")),
            ("cost", cost(record.get("cost"))),
            ("waits", record.get("wait")),
            ("stop", (record.get("stop") or {}).get("reason")),
            ("cluster object", found.get("name") or record.get("k8s_job_name")),
            ("uid", found.get("uid") or record.get("k8s_job_uid")),
            ("reason", record.get("reason")),
            ("message", record.get("message") or record.get("error_message")),
            ("held", record.get("held")),
        ]
    )
    executions = document.get("executions") or record.get("executions") or []
    if executions:
        output.write("")
        output.table(
            ("EXECUTION", "STATE", "REGION", "STARTED", "FINISHED", "COST", "REASON", "OBJECT", "MESSAGE"),
            [
                (
                    one.get("number"),
                    one.get("state"),
                    one.get("region"),
                    output.moment(one.get("started_at")),
                    output.moment(one.get("finished_at")),
                    cost(one.get("cost")),
                    one.get("reason"),
                    (one.get("object") or {}).get("name"),
                    one.get("message"),
                )
                for one in executions
            ],
            empty="no executions",
        )


def cost(told: Mapping[str, Any] | None) -> str | None:
    """A cost, with what of it isn't known; None where none is told."""
    if told is None:
        return None
    amount, missing = Decimal(told["known_usd"]), told.get("missing")
    known = f"{amount:.6f} USD" if amount or not missing else "not known"
    return f"{known} ({missing})" if missing else known


def event_row(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """One entry of a job's history."""
    said = ": ".join(str(part) for part in (event.get("reason"), event.get("message")) if part)
    return (
        event.get("number"),
        output.moment(event.get("at")),
        event.get("type"),
        event.get("state"),
        event.get("execution"),
        said or None,
    )


EVENT_COLUMNS = ("NUMBER", "TIME", "EVENT", "STATE", "EXECUTION", "WHY")
