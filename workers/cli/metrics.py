"""`gpufleet metrics top | query | plan`: what the GPUs do and for whom, and what it costs to write that down."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError
from workers.cli.metric_query import query
from workers.cli.options import API, Api, AsJson, Key

app = typer.Typer(help="What GPUs do, and for whom.", no_args_is_help=True)
app.command("query")(query)

_MOST = 5000
_WATCH_SECONDS = 5.0
_IDLE = "(idle)"
_OTHER = "(not the fleet's)"
_MIB = 1024

Gpu = Mapping[str, Any]


class By(StrEnum):
    """What a row is about."""

    GPU = "gpu"
    JOB = "job"
    NODE = "node"
    NAMESPACE = "namespace"
    PROJECT = "project"
    REGION = "region"


@app.command()
def top(
    by: Annotated[By, typer.Option("--by", help="A row for each of these.")] = By.GPU,
    region: Annotated[str | None, typer.Option("--region", help="Only this region.")] = None,
    node: Annotated[str | None, typer.Option("--node", help="Only this node.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only what this namespace holds.")] = None,
    job: Annotated[str | None, typer.Option("--job", help="Only what the job of this id holds.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again, until Ctrl-C.")] = False,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show GPUs, who holds them, and what they do, at the last scrape.

    UTIL is how busy its engines are, of several GPUs the mean and the most. VRAM is what is used of what there is. A GPU that is divided
    has a row for itself (power, temperature, health) and one for each partition (activity, memory).
    """
    from workers.cli.metric_client import MetricClient

    if watch and as_json:
        raise CommandError.at("--watch", None, "must be without --json, which writes one document")
    with MetricClient(api, key) as client:
        while True:
            answer = client.gpus(region=region, node=node, namespace=namespace, job_id=job, limit=_MOST)
            if as_json:
                output.write_json(answer)
            else:
                if watch and sys.stdout.isatty():
                    output.out().clear()
                _show(answer, by)
            if not watch:
                return
            time.sleep(_WATCH_SECONDS)


@app.command()
def plan(
    rollups: Annotated[
        str | None, typer.Option("--rollups", help="Instead of those that are configured, such as region,region+node+device.")
    ] = None,
    measures: Annotated[
        str | None, typer.Option("--measures", help="Instead of those that are configured, such as gpu_utilization,gpu_power.")
    ] = None,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Say how many metrics the GPUs and jobs of now make in CloudWatch, and what so many cost a month.

    CloudWatch takes money for each metric and hour in which it is written: a job that is over costs nothing any more, one of ten minutes an
    hour. What is written is set by GPUFLEET_METRICS_ROLLUPS and GPUFLEET_METRICS_MEASURES of the metrics worker.
    """
    from workers.cli.metric_client import MetricClient

    with MetricClient(api, key) as client:
        answer = client.metrics_plan(rollups=rollups, measures=measures)
    if as_json:
        output.write_json(answer)
        return
    rows = [(" + ".join(one["labels"]) or "each region beside", one["groups"], one["metrics"]) for one in answer["rollups"]]
    output.table(("TOGETHER BY", "GROUPS", "METRICS"), rows, empty="nothing is written to CloudWatch")
    output.write("")
    output.pairs(
        [
            ("GPUs", f"{answer['gpus']} in {', '.join(answer['regions']) or 'no region that was read yet'}"),
            ("metrics", f"{answer['metrics']}: {answer['metrics_usd']} USD a month"),
            ("requests", f"{answer['requests']} a month, a scrape each {answer['interval_seconds']:g} s: {answer['requests_usd']} USD"),
            (
                "together",
                f"{answer['total_usd']} USD a month, by prices of {answer['prices_of']} (us-east-1), as if the account had no others",
            ),
        ]
    )
    for line in answer.get("uncertain") or ():
        output.say(line)


def _show(answer: Mapping[str, Any], by: By) -> None:
    gpus: Sequence[Gpu] = answer["gpus"]
    if by is By.GPU:
        columns = ("REGION", "NODE", "GPU", "MODEL", "UTIL", "VRAM", "POWER", "TEMP", "HEALTH", "NAMESPACE", "JOB", "POD")
        rows: Iterable[Sequence[Any]] = [_of_gpu(gpu) for gpu in gpus]
    else:
        columns = (by.name, *(("NAME",) if by is By.JOB else ()), "GPUS", "HELD", "UTIL", "MOST", "VRAM", "POWER", "SICK")
        rows = _grouped(gpus, by)
    output.table(columns, rows, empty="no GPUs")
    for region in answer["regions"]:
        output.say(_how_read(region))
    if answer.get("partial"):
        output.say(f"these are {len(gpus)} of {answer['count']} GPUs; choose with --region, --node, --namespace or --job")
    if not answer["regions"]:
        output.say("no region was read yet: the metrics worker (python -m workers.metrics) reads them")


def _how_read(region: Mapping[str, Any]) -> str:
    told = f"{region['region']}: {region['gpus']} GPUs, read {region['age_seconds']:.0f} s ago"
    if region["stale"]:
        told += ", which is too long: nothing is known of the present"
    failed = [one for one in region.get("exporters") or () if one["error"]]
    if region["exporters_failed"]:
        told += f"; {region['exporters_failed']} exporters failed"
    return "\n".join([told, *(f"  {one['node']} ({one['namespace']}/{one['pod']}): {one['error']}" for one in failed)])


def _of_gpu(gpu: Gpu) -> Sequence[Any]:
    values = gpu["values"]
    index = gpu["gpu"] if gpu["partition"] is None else f"{gpu['gpu']}/{gpu['partition']} {gpu['profile'] or ''}".rstrip()
    return (
        gpu["region"],
        gpu["node"],
        index,
        gpu["model"],
        _with_unit(values.get("gpu_utilization"), "%"),
        _vram(values.get("gpu_vram_used"), values.get("gpu_vram_total")),
        _with_unit(values.get("gpu_power"), " W"),
        _with_unit(values.get("gpu_junction_temperature"), " °C"),
        {1.0: "ok", 0.0: "sick"}.get(values.get("gpu_health")),
        gpu["namespace"],
        gpu["job_id"] or gpu["job_name"],
        gpu["pod"],
    )


_KEYS: Mapping[By, Callable[[Gpu], str]] = {
    By.JOB: lambda gpu: _IDLE if gpu["namespace"] is None else gpu["job_id"] or _OTHER,
    By.NODE: lambda gpu: f"{gpu['region']}/{gpu['node']}",
    By.NAMESPACE: lambda gpu: gpu["namespace"] or _IDLE,
    By.PROJECT: lambda gpu: _IDLE if gpu["namespace"] is None else gpu["project"] or "-",
    By.REGION: lambda gpu: gpu["region"],
}


def _grouped(gpus: Sequence[Gpu], by: By) -> list[Sequence[Any]]:
    """A row for each group, the busiest first and what is idle last."""
    groups: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        if by in (By.NODE, By.REGION) or not gpu["divided"]:  # nobody holds a divided GPU; its partitions are held
            groups.setdefault(_KEYS[by](gpu), []).append(gpu)
    order = sorted(groups.items(), key=lambda item: (item[0] == _IDLE, -_total(item[1], "gpu_utilization"), item[0]))
    return [_of_group(name, found, by) for name, found in order]


def _of_group(name: str, gpus: Sequence[Gpu], by: By) -> Sequence[Any]:
    held = [gpu for gpu in gpus if not gpu["divided"]]
    busy = _values(gpus, "gpu_utilization")
    healthy = _values(gpus, "gpu_health")
    total = _values(gpus, "gpu_vram_total")
    return (
        name,
        *((gpus[0]["job_name"] if name not in (_IDLE, _OTHER) else None,) if by is By.JOB else ()),
        len(held),
        sum(gpu["namespace"] is not None for gpu in held),
        _with_unit(sum(busy) / len(busy) if busy else None, "%"),
        _with_unit(max(busy, default=None), "%"),
        _vram(_total(gpus, "gpu_vram_used"), sum(total) if total else None),
        _with_unit(_total(gpus, "gpu_power") if _values(gpus, "gpu_power") else None, " W"),
        sum(value == 0 for value in healthy) if healthy else None,
    )


def _values(gpus: Iterable[Gpu], measure: str) -> list[float]:
    return [gpu["values"][measure] for gpu in gpus if measure in gpu["values"]]


def _total(gpus: Iterable[Gpu], measure: str) -> float:
    return sum(_values(gpus, measure))


def _with_unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:.0f}{unit}"


def _vram(used: float | None, total: float | None) -> str | None:
    if used is None or not total:
        return None
    return f"{used / _MIB:.1f}/{total / _MIB:.0f} GiB"
