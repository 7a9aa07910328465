"""`gpufleet metrics query`: what was measured of GPUs, now or over time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from workers.cli import output
from workers.cli.durations import seconds_of
from workers.cli.failures import CommandError
from workers.cli.options import API, Api, AsJson, Key


def query(
    measure: Annotated[str, typer.Argument(help="Such as gpu_utilization, gpu_vram_used or gpu_power.")],
    how: Annotated[str, typer.Option("--how", help="Over the devices of a group: avg, max, sum or count.")] = "avg",
    by: Annotated[
        str,
        typer.Option("--by", help="A row for each of these, separated by commas: region, node, device, vendor, namespace, project, job."),
    ] = "region",
    region: Annotated[str | None, typer.Option("--region", help="Only this region.")] = None,
    node: Annotated[str | None, typer.Option("--node", help="Only this node.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only what this namespace holds.")] = None,
    project: Annotated[str | None, typer.Option("--project", help="Only what this project holds.")] = None,
    job: Annotated[str | None, typer.Option("--job", help="Only what the job of this id holds.")] = None,
    last: Annotated[str | None, typer.Option("--last", help="Over this span up to now, such as 1h or 7d; 8d at most.")] = None,
    step: Annotated[
        int | None,
        typer.Option("--step", min=1, help="Seconds between two points, in whole minutes; chosen by the span unless said."),
    ] = None,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show what was measured of GPUs in the newest minute, or with --last the least, the mean and the most of a span's points.

    CloudWatch answers by the labels that its rollups have (GPUFLEET_METRICS_ROLLUPS), a Prometheus by all. Nodes and devices are told with
    their region, since two regions may call them alike.
    """
    from workers.cli.metric_client import MetricClient

    labels = _labels(by)
    seconds = _span(last, step)
    asked: dict[str, Any] = {
        "measure": measure,
        "aggregation": how,
        "by": ",".join(labels),
        "region": region,
        "node": node,
        "namespace": namespace,
        "project": project,
    }
    with MetricClient(api, key) as client:
        if seconds is None:
            answer = client.metrics_instant(**asked, job_id=job)
        else:
            now = datetime.now(UTC)
            span = {"start": (now - timedelta(seconds=seconds)).isoformat(), "end": now.isoformat(), "step": step}
            answer = client.metrics_range(**asked, **span, job_id=job)
    if as_json:
        output.write_json(answer)
        return
    columns = [label.upper() for label in labels]
    unit = answer["unit"]
    values = [unit.upper()] if last is None else ["LEAST", "MEAN", "MOST", f"LAST ({unit})"]
    rows = [[*(one["labels"].get(label) for label in labels), *_values(one, over_time=last is not None)] for one in answer["series"]]
    output.table([*columns, *values], rows, empty="nothing was measured")


def _labels(by: str) -> list[str]:
    """The labels of the API, from the words of --by. What is only unique within a region has the region before it."""
    words = [word.strip() for word in by.split(",") if word.strip()]
    labels = ["job_id" if word == "job" else word for word in words]
    return ["region", *labels] if {"node", "device"} & set(labels) and "region" not in labels else labels


def _span(last: str | None, step: int | None) -> int | None:
    """The seconds of --last, where it is given; --step fits it. Raises CommandError."""
    from shared.metrics.steps import MINUTE, MOST_PAST

    seconds = None if last is None else seconds_of(last, field="--last", most=MOST_PAST)
    if step is None:
        return seconds
    if seconds is None:
        raise CommandError.at("--step", step, "must come with --last")
    if step % MINUTE:
        raise CommandError.at("--step", step, "must be whole minutes, such as 300")
    if step > seconds:
        raise CommandError.at("--step", step, f"must be at most --last, which is {seconds} seconds")
    return seconds


def _values(series: Mapping[str, Any], *, over_time: bool) -> list[str]:
    known = [point["value"] for point in series["points"] if point["value"] is not None]
    if not over_time:
        return [_number(known[-1])]
    return [_number(value) for value in (min(known), sum(known) / len(known), max(known), known[-1])]


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
