"""The table held against the clusters of all regions, after it was restored to a point in time (`shared.jobs.reconciliation`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from shared.aws import Aws
from shared.clusters.feeds import OURS
from shared.clusters.kept_logs import KeptExecutions
from shared.clusters.kinds import JOB
from shared.clusters.listing import whole_list
from shared.clusters.observed import observed
from shared.clusters.reaching import cluster_told, reach
from shared.errors import InvalidError, Problem
from shared.health.beats import Beat
from shared.jobs.ports import Observed
from shared.jobs.reconciliation import Finding, Found, Reconciliation
from shared.jobs.regions import RegionControl
from shared.settings import Settings
from shared.store.regions import Regions
from shared.store.table import Table
from workers.assembly import assemble
from workers.fleet_seen import other_regions, running_since
from workers.process import owner

MUST_NOT_RUN = ("dispatcher", "observer", "sweeper", "ingest", "webhooks")
"""The workers that would claim, judge or accept jobs, or tell of them, by what the table has not yet been told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """How many of the fleet's objects were found on a region's cluster."""

    region: str
    cluster: str
    objects: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """A finding, and whether it was written: None where nothing was to be."""

    finding: Finding
    written: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What was found, where, and where not; `running` are workers that seem to run, though none should."""

    settled: Sequence[Settled]
    looked: Sequence[Looked]
    left_out: Sequence[str] = ()
    running: Sequence[Beat] = ()


async def reconcile(settings: Settings, aws: Aws, *, restored_to: datetime, apply: bool, leave_out: Collection[str] = ()) -> Report:
    """Find what the table has forgotten; with `apply`, drain every region first and write what the table has to know.

    Raises InvalidError, before anything is done, where the table knows a region that is neither the fleet's by its settings nor one of
    `leave_out`: a job may run there that would run a second time.

    Raises UnavailableError where the table, the bucket or a cluster doesn't answer: then it is begun again, once it does.
    """
    core = await assemble(settings, aws)
    await _require_all_regions(core.table, settings.regions, leave_out)
    running = await running_since(core.table, MUST_NOT_RUN, restored_to, now=core.clock.now())
    me = owner("reconcile")
    if apply:
        control = RegionControl(statuses=Regions(core.table), regions=settings.regions, doorbell=core.doorbell, clock=core.clock)
        for region in settings.regions:
            reason = f"the table was restored to {restored_to.isoformat(timespec='seconds')}"
            await control.drain(region, by=me, reason=reason, move=False, interrupt=False)
    objects = {region: await _objects(settings, region) for region in settings.regions}
    engine = Reconciliation(
        store=core.store, logs=KeptExecutions(core.objects), changes=core.changes, clock=core.clock, ids=core.ids, owner=me
    )
    findings = await engine.examine(objects, restored_to=restored_to)
    return Report(
        settled=[Settled(finding=one, written=await _settled(engine, one) if apply else None) for one in findings],
        looked=[Looked(region=region, cluster=cluster_told(settings, region), objects=len(seen)) for region, seen in objects.items()],
        left_out=sorted(leave_out),
        running=running,
    )


async def _require_all_regions(table: Table, regions: Sequence[str], leave_out: Collection[str]) -> None:
    both = [Problem(pointer="--leave-out", value=one, rule="must not be one of GPUFLEET_REGIONS") for one in leave_out if one in regions]
    missing = [
        Problem(
            pointer="GPUFLEET_REGIONS",
            value=",".join(regions),
            rule=f"must name {region} too, of which the table knows by {why}; --leave-out {region} where its cluster is no more",
        )
        for region, why in (await other_regions(table, regions)).items()
        if region not in leave_out
    ]
    if both or missing:
        raise InvalidError([*both, *missing])


async def _settled(engine: Reconciliation, finding: Finding) -> bool | None:
    return await engine.settle(finding) if finding.found is not Found.FORGOTTEN else None


async def _objects(settings: Settings, region: str) -> list[Observed]:
    """The fleet's objects on a region's cluster."""
    async with reach(settings, region) as api, aclosing(whole_list(api, JOB.path(None), {"labelSelector": OURS})) as found:
        return [seen async for document in found if (seen := observed(document)) is not None]
