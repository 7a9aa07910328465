"""What the consumers make of the demo's jobs: webhooks that arrive, costs that add up, GPUs of both makes that are measured."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import httpx
from rich.console import Console
from rich.table import Table

from workers.local.demo.figures import Figure
from workers.local.demo.receiver import Receiver
from workers.local.demo.state import Record, Seen

WAIT_SECONDS: Final = 30.0
"""How long after the last job its message, its cost and the measures of its GPUs may take."""
WINDOW: Final = timedelta(minutes=5)
"""The shortest window of a cost report."""
ROUNDING: Final = Decimal("1e-7")
"""USD by which a cost that a message tells may differ from the rows of a report, each part of which is rounded to 1e-9."""
END_OF: Final = {"succeeded": "job.completed", "failed": "job.failed", "cancelled": "job.cancelled"}
EVENTS: Final = ("job.queued", "job.started", "job.interrupted", *END_OF.values())
_VENDORS: Final = ("nvidia", "amd")

Json = Mapping[str, Any]


def new_secret() -> str:
    """A secret of Standard Webhooks."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


async def subscribe(client: httpx.AsyncClient, receiver: Receiver) -> None:
    """Register the receiver for all events. Raises httpx.HTTPError."""
    wanted = {"url": receiver.url, "events": list(EVENTS), "namespace": "gco-jobs", "secret": receiver.secret}
    (await client.post("/api/v1/webhooks", json=wanted)).raise_for_status()


@dataclass(kw_only=True)
class Aftermath:
    """What was found, as tables and figures."""

    costs: dict[str, Json] = field(default_factory=dict)
    """A report of each region, its totals by namespace among it."""
    of_jobs: dict[str, Decimal] = field(default_factory=dict)
    """What the same reports say of each job, in USD."""
    gpus: list[Json] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


async def gather(client: httpx.AsyncClient, receiver: Receiver, seen: Seen, regions: Sequence[str], gpus: int) -> Aftermath:
    """Wait for what is still under way, and look at it; `gpus` are those that the fleet's machines have. Raises httpx.HTTPError."""
    begun, until = datetime.now(UTC), time.monotonic() + WAIT_SECONDS
    found = Aftermath()
    while time.monotonic() < until and not (_all_told(receiver, seen) and len(found.gpus) == gpus):
        found.gpus = [one for one in (await _get(client, "/fleet/v1/metrics/gpus"))["gpus"] if one["partition"] is None]
        await asyncio.sleep(0.3)
    for region in regions:
        found.costs[region] = await _report(client, region, begun, until)
        found.of_jobs |= await _of_jobs(client, found.costs[region]["key"])
    found.figures = [
        _told(receiver, seen),
        _told_costs(receiver, seen, found.of_jobs),
        Figure(name="wrong signatures", wanted=0, found=len(receiver.refused), why=receiver.refused),
        _add_up(found.costs),
        _measured(found.gpus, gpus),
    ]
    return found


def show(console: Console, found: Aftermath) -> None:
    """Print the tables."""
    console.print(_cost_table(found.costs))
    console.print(_gpu_table(found.gpus))


async def _report(client: httpx.AsyncClient, region: str, begun: datetime, until: float) -> Json:
    """A report of the last minutes, with its totals; asked for again until it knows what was used before `begun`, since usage is written
    every ten seconds."""
    while True:
        now = datetime.now(UTC).replace(microsecond=0)
        wanted = {"region": region, "start": (now - WINDOW).isoformat(), "end": now.isoformat()}
        answer = await client.post("/fleet/v1/costs/reports", json=wanted)
        late = time.monotonic() > until
        if answer.status_code != httpx.codes.NOT_FOUND or late:  # which says that no usage is known yet
            answer.raise_for_status()
            summary = answer.json()
            if (Decimal(summary["jobs_cost"]) > 0 and _known_to(summary) >= begun) or late:
                report: Json = await _get(client, f"/fleet/v1/costs/reports/{summary['allocation_key']}")
                return report
        await asyncio.sleep(1.0)


def _known_to(summary: Json) -> datetime:
    """Up to when a report knows what was used: where nobody has told of its last part yet, that is a gap."""
    end = datetime.fromisoformat(summary["window_end"])
    gaps = [(datetime.fromisoformat(gap["start"]), datetime.fromisoformat(gap["end"])) for gap in summary["gaps"]]
    return next((start for start, until in gaps if until == end), end)


async def _of_jobs(client: httpx.AsyncClient, key: str) -> dict[str, Decimal]:
    found = await _get(client, f"/fleet/v1/costs/reports/{key}?by=job&limit=1000")
    return {one["key"]: Decimal(one["total_cost"]) for one in found["totals"] if not one["idle"]}


async def _get(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    answer.raise_for_status()
    return answer.json()


def _ends(receiver: Receiver) -> Mapping[str, list[str]]:
    """The events of ends that have come, by job."""
    ends: dict[str, list[str]] = {}
    for message in receiver.messages.values():
        if message["event"] in END_OF.values():
            ends.setdefault(message["job_id"], []).append(message["event"])
    return ends


def _all_told(receiver: Receiver, seen: Seen) -> bool:
    ends = _ends(receiver)
    return all(job["job_id"] in ends for job in seen.jobs if job["status"] in END_OF)


def _told(receiver: Receiver, seen: Seen) -> Figure:
    """Every end was told once, under one id, as what it was."""
    ends = _ends(receiver)
    ended = [job for job in seen.jobs if job["status"] in END_OF]
    return Figure(name="ends told by webhook", wanted=len(ended), found=len(ends), why=list(_wrongly_told(ended, ends)))


def _wrongly_told(ended: Iterable[Record], ends: Mapping[str, list[str]]) -> Iterable[str]:
    for job in ended:
        told = ends.get(job["job_id"], [])
        if told != [END_OF[job["status"]]]:
            yield f"job {job['job_id']} is {job['status']}, and its webhook was told {', '.join(told) or 'nothing'}"


def _told_costs(receiver: Receiver, seen: Seen, of_jobs: Mapping[str, Decimal]) -> Figure:
    """The message of a job's end tells what the job has cost, as the report does that is written later."""
    told = {one["job_id"]: one["cost"] for one in receiver.messages.values() if one["event"] in END_OF.values()}
    ended = [job["job_id"] for job in seen.jobs if job["status"] in END_OF]
    wrong = list(_wrongly_costed(ended, told, of_jobs))
    return Figure(name="costs told by webhook as reported", wanted=len(ended), found=len(ended) - len(wrong), why=wrong)


def _wrongly_costed(ended: Iterable[str], told: Mapping[str, Json], of_jobs: Mapping[str, Decimal]) -> Iterable[str]:
    for job in ended:
        cost, reported = told.get(job), of_jobs.get(job, Decimal(0))
        if cost is None or cost["usd"] is None:
            yield f"job {job}: {cost['missing'] if cost else 'no message'}; the report says {reported} USD"
        elif abs(Decimal(cost["usd"]) - reported) > ROUNDING:
            yield f"job {job}: told {cost['usd']} USD, the report says {reported}"


def _add_up(costs: Mapping[str, Json]) -> Figure:
    """The rows of a report are what the nodes cost, to the last digit, and jobs are among them."""
    wrong = []
    for region, report in costs.items():
        summary = report["summary"]
        rows = sum((Decimal(one["total_cost"]) for one in report["totals"]), Decimal(0))
        if rows != Decimal(summary["node_cost"]):
            wrong.append(f"{region}: the rows are {rows}, the nodes {summary['node_cost']}")
        elif not Decimal(summary["jobs_cost"]) > 0:
            wrong.append(f"{region}: no job is among the rows")
    return Figure(name="cost reports that add up", wanted=len(costs), found=len(costs) - len(wrong), why=wrong)


def _measured(gpus: Sequence[Json], wanted: int) -> Figure:
    missing = [f"no GPU of {vendor}" for vendor in _VENDORS if vendor not in {one["vendor"] for one in gpus}]
    return Figure(name="GPUs measured", wanted=wanted, found=len(gpus), why=missing)


def _cost_table(costs: Mapping[str, Json]) -> Table:
    table = Table(title="what five minutes cost (USD)", title_justify="left", box=None, header_style="bold")
    table.add_column("region")
    table.add_column("for")
    for name in ("GPU", "CPU", "memory", "all"):
        table.add_column(name, justify="right")
    for region, report in costs.items():
        for one in report["totals"]:
            table.add_row(region, one["key"], *(f"{Decimal(one[f'{part}_cost']):.6f}" for part in ("gpu", "cpu", "ram", "total")))
        table.add_row(region, "the nodes", "", "", "", f"{Decimal(report['summary']['node_cost']):.6f}", style="bold")
    return table


def _gpu_table(gpus: Sequence[Json]) -> Table:
    table = Table(title="GPUs at the last scrape", title_justify="left", box=None, header_style="bold")
    for name in ("region", "make", "model"):
        table.add_column(name)
    for name in ("GPUs", "busy", "utilization %", "memory used %", "W"):
        table.add_column(name, justify="right")
    kinds = Counter((one["region"], one["vendor"], one["model"]) for one in gpus)
    for (region, vendor, model), number in sorted(kinds.items()):
        group = [one for one in gpus if (one["region"], one["vendor"], one["model"]) == (region, vendor, model)]
        used, total = _sum(group, "gpu_vram_used"), _sum(group, "gpu_vram_total")
        table.add_row(
            region,
            vendor,
            model,
            str(number),
            str(sum(one["job_id"] is not None for one in group)),
            f"{_sum(group, 'gpu_utilization') / number:.0f}",
            f"{used / total * 100:.0f}" if total else "",
            f"{_sum(group, 'gpu_power'):.0f}",
        )
    return table


def _sum(group: Iterable[Json], measure: str) -> float:
    return float(sum(one["values"].get(measure, 0.0) for one in group))
