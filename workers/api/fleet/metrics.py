"""GPUs as they were last read, and what their metrics in CloudWatch cost. What reads them is imported by the first request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query

from shared.errors import InvalidError, NotFoundError, Problem
from shared.identity.callers import Caller
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader
from workers.api.errors import answers
from workers.api.fleet.metric_schemas import ExporterAnswer, GpuReading, GpusAnswer, PlanAnswer, PlannedRollup, ScrapedRegion

if TYPE_CHECKING:
    from shared.metrics.series import Rollup
    from shared.metrics.snapshot import Gpu, Snapshot

MOST = 5000
"""GPUs of one answer: some 3 MB, of the 6 MB that AWS Lambda may answer."""

Filter = Annotated[str | None, Query(max_length=253)]

router = APIRouter(prefix="/metrics", tags=["Fleet: metrics"], route_class=StrictRoute)


@router.get("/gpus", responses=answers(401, 403, 404, 422, 429, 503))
async def list_gpus(
    core: CoreOf,
    caller: Reader,
    region: Filter = None,
    node: Filter = None,
    namespace: Filter = None,
    job_id: Filter = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 1000,
) -> GpusAnswer:
    """All GPUs and who holds them, at the last scrape of each region. A caller who is bound to namespaces sees what these hold.

    404 for a region that the fleet doesn't have, a node on which no GPU was seen, and a job that held none.
    """
    from shared.metrics.snapshot import units

    if namespace is not None:
        caller.require_namespace(namespace)
    snapshots = await _snapshots(core, region)
    wanted = {"node": node, "namespace": namespace, "job_id": job_id}
    asked = {name: value for name, value in wanted.items() if value is not None}
    found: list[GpuReading] = []
    nodes: set[str] = set()
    jobs: set[str] = set()
    for snapshot in snapshots:
        apart = {id(gpu) for gpu in units(snapshot.gpus)}
        visible = [gpu for gpu in snapshot.gpus if _visible(gpu, caller)]
        nodes.update(gpu.device.node for gpu in visible)
        jobs.update(gpu.user.job_id for gpu in visible if gpu.user is not None and gpu.user.job_id is not None)
        readings = (_reading(gpu, snapshot.region, divided=id(gpu) not in apart) for gpu in visible)
        found += [one for one in readings if all(getattr(one, name) == value for name, value in asked.items())]
    if node is not None and node not in nodes:
        raise NotFoundError("Node", node)
    if job_id is not None and job_id not in jobs:
        raise NotFoundError("Job", job_id, hint="it held no GPU at the last scrape")
    return GpusAnswer(
        regions=[_region(core, snapshot, caller) for snapshot in snapshots],
        gpus=found[:limit],
        count=len(found),
        partial=len(found) > limit,
    )


@router.get("/plan", responses=answers(401, 403, 422, 429, 503))
async def get_plan(
    core: CoreOf,
    caller: Reader,
    rollups: Annotated[str | None, Query(max_length=1000, description="Instead of the configured ones: `region,region+node`")] = None,
    measures: Annotated[str | None, Query(max_length=1000, description="Instead of the configured ones: `gpu_power,gpu_health`")] = None,
) -> PlanAnswer:
    """How many metrics there are in CloudWatch with the GPUs and jobs of now, and what they cost a month."""
    from shared.metrics.plan import PRICES_OF, UNCERTAIN, plan
    from shared.metrics.rollups import measures_of, rollups_of

    caller.require_all_namespaces("what metrics cost")
    settings = core.settings
    chosen = rollups_of(settings.metrics_rollups) if rollups is None else _rollups(_words(rollups))
    kinds = measures_of(settings.metrics_measures) if measures is None else measures_of(_words(measures), field="/measures")
    snapshots = await _snapshots(core, None)
    planned = plan(snapshots, chosen, kinds, seconds=settings.metrics_seconds)
    return PlanAnswer(
        regions=[snapshot.region for snapshot in snapshots],
        gpus=sum(len(snapshot.gpus) for snapshot in snapshots),
        rollups=[
            PlannedRollup(labels=[] if line.rollup is None else _labels(line.rollup), groups=line.groups, metrics=line.metrics)
            for line in planned.lines
        ],
        measures=sorted(kinds),
        interval_seconds=settings.metrics_seconds,
        metrics=planned.metrics,
        metrics_usd=str(planned.metrics_usd),
        requests=planned.requests,
        requests_usd=str(planned.requests_usd),
        total_usd=str(planned.total_usd),
        prices_of=PRICES_OF.isoformat(),
        uncertain=list(UNCERTAIN),
    )


async def _snapshots(core: Core, region: str | None) -> list[Snapshot]:
    from shared.metrics.snapshots import Snapshots

    if region is not None and region not in core.settings.regions:
        raise NotFoundError("Region", region)
    return await Snapshots(core.objects).latest(core.settings.regions if region is None else [region])


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _rollups(texts: Sequence[str]) -> Sequence[Rollup]:
    from shared.metrics.rollups import rollups_of
    from shared.metrics.series import Label

    try:
        found = rollups_of(texts)
    except ValueError:
        found = ()
    if len(found) != len(texts) or any(Label.REGION not in rollup for rollup in found):
        rule = f"must be different rollups separated by commas, each region and then any of {', '.join(Label)}, joined by +"
        raise InvalidError([Problem(pointer="/rollups", value=",".join(texts), rule=rule)])
    return found


def _labels(rollup: Rollup) -> list[str]:
    from shared.metrics.series import Label

    return [label.value for label in Label if label in rollup]


def _visible(gpu: Gpu, caller: Caller) -> bool:
    return caller.namespaces is None or (gpu.user is not None and caller.sees(gpu.user.namespace))


def _region(core: Core, snapshot: Snapshot, caller: Caller) -> ScrapedRegion:
    from shared.metrics.snapshot import STALE_AFTER

    age = snapshot.age(core.clock.now())
    exporters = [
        ExporterAnswer(
            namespace=one.namespace,
            pod=one.pod,
            node=one.node,
            gpus=one.gpus,
            seconds=one.seconds,
            broken_lines=one.broken,
            error=one.error,
        )
        for one in snapshot.exporters
    ]
    return ScrapedRegion(
        region=snapshot.region,
        scraped_at=snapshot.at,
        age_seconds=round(age, 1),
        stale=age > core.settings.metrics_seconds * STALE_AFTER,
        seconds=snapshot.seconds,
        gpus=len(snapshot.gpus),
        exporters_failed=snapshot.failures,
        exporters=exporters if caller.namespaces is None else None,
    )


def _reading(gpu: Gpu, region: str, *, divided: bool) -> GpuReading:
    from shared.metrics.series import device_name

    device, user = gpu.device, gpu.user
    return GpuReading(
        region=region,
        node=device.node,
        gpu=device.index,
        device=device_name(device),
        uuid=device.uuid,
        vendor=device.vendor.value,
        model=device.model,
        partition=device.partition,
        profile=device.profile,
        divided=divided,
        namespace=user.namespace if user else None,
        pod=user.pod if user else None,
        container=user.container if user else None,
        job_id=user.job_id if user else None,
        execution=user.execution if user else None,
        job_name=user.job_name if user else None,
        project=user.project if user else None,
        values={measure.value: value for measure, value in gpu.values.items()},
    )
