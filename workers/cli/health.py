"""`gpufleet health`: how well the fleet itself is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from workers.cli import output
from workers.cli.options import API, Api, AsJson, Key

_TENTHS = 10.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("health")(health)


def health(api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Show what waits in each region and for how long, dead letters, deliveries to webhooks, and how workers' loops are.

    Ages are those of the oldest: of a ready job since it was submitted, of a claim, of an overdue mark since its time. DISPATCH is from
    submission to commit, the median of the newest jobs and the most. OBSERVED says how long ago the observer reported on the cluster: when
    its nodes or what is free of them change, and otherwise every 10 minutes, so that less is well. SCRAPED says when its GPUs were read.
    Both are `never` where nobody has done so yet.

    LAST HEARD is when a worker's process last told of its loop: at its start, when something changes, and otherwise every 30 minutes; after
    65 it counts as silent. Until then a process that was killed or hangs reads as it last told, `well` mostly: whether it is there, its
    cluster says (`kubectl -n gpufleet get pods`). LAST GOOD PASS is told only of a loop that is not well; of one that is, it is -. RELEASE
    is what the process runs: an upgrade is over when all say the same.
    """
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        answer = client.health()
    if as_json:
        output.write_json(answer)
        return
    regions = ("REGION", "READY", "OLDEST", "CLAIMED", "OLDEST", "OVERDUE", "OLDEST", "RUNNING", "DISPATCH", "OBSERVED", "SCRAPED")
    output.table(regions, [_region(one) for one in answer["regions"]], empty="no regions")
    letters = [(one["queue"], one["dead_letters"]) for one in answer["queues"] if one["dead_letters"]]
    if letters:
        output.write("")
        output.table(("QUEUE", "DEAD LETTERS"), letters, empty="")
    webhooks = answer.get("webhooks")
    if webhooks and webhooks["webhooks"]:
        output.write("")
        row = (webhooks["webhooks"], webhooks["disabled"], webhooks["waiting"], seconds(webhooks["overdue_seconds"]))
        output.table(("WEBHOOKS", "DISABLED", "DELIVERIES WAITING", "OVERDUE"), [row], empty="")
    output.write("")
    loops = ("WORKER", "REGION", "STATE", "LAST HEARD", "LAST GOOD PASS", "RELEASE", "OWNER", "ERROR")
    output.table(loops, [_loop(one) for one in answer["loops"]], empty="no worker has told of itself")
    for part, reason in answer["unread"].items():
        output.say(f"{part} could not be read: {reason}")


def _region(one: Mapping[str, Any]) -> tuple[Any, ...]:
    backlogs = (one["ready"], one["claims"], one["overdue"])
    waiting = [part for backlog in backlogs for part in (_count(backlog), seconds(backlog["oldest_seconds"]))]
    dispatched = one.get("dispatched")
    took = f"{seconds(dispatched['median_seconds'])}, {seconds(dispatched['most_seconds'])}" if dispatched else "-"
    name = f"{one['region']} (drained)" if one.get("drained") else one["region"]
    told = (_since(one["observed_seconds"]), _since(one["scraped_seconds"]))
    return (name, *waiting, one["jobs"].get("running", 0), took, *told)


def _since(value: float | None) -> str:
    return "never" if value is None else seconds(value)


def _count(backlog: Mapping[str, Any]) -> str:
    return str(backlog["count"]) if backlog["exact"] else f"{backlog['count']}+"


def _loop(one: Mapping[str, Any]) -> tuple[Any, ...]:
    # Of a loop that is well, it would be the last pass before it was heard of, which looks like a stall and is none.
    passed = None if one["state"] == "well" else seconds(one["passed_seconds"])
    ages = (seconds(one["told_seconds"]), passed)
    return (one["worker"], one["region"] or "all", one["state"], *ages, one.get("release"), one["owner"], one["error"])


def seconds(value: float | None) -> str:
    """A span in its largest unit: `0.4s`, `12s`, `3m`, `5h`, `2d`."""
    if value is None:
        return "-"
    if value < _TENTHS:
        return f"{value:.1f}s"
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if value >= length:
            return f"{int(value // length)}{unit}"
    return f"{int(value)}s"
