"""The table held against the clusters of all regions, after it was restored to a point in time (`shared.jobs.reconciliation`)."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from shared.aws import Aws
from shared.clusters.feeds import OURS
from shared.clusters.kept_logs import KeptExecutions
from shared.clusters.kinds import JOB
from shared.clusters.listing import whole_list
from shared.clusters.observed import observed
from shared.clusters.reaching import reach
from shared.jobs.ports import Observed
from shared.jobs.reconciliation import Finding, Found, Reconciliation
from shared.jobs.regions import RegionControl
from shared.settings import Settings
from shared.store.regions import Regions
from workers.assembly import assemble
from workers.process import owner


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """A finding, and whether it was written: None where nothing was to be."""

    finding: Finding
    written: bool | None


async def reconcile(settings: Settings, aws: Aws, *, restored_to: datetime, apply: bool) -> list[Settled]:
    """Find what the table has forgotten; with `apply`, drain every region first and write what the table has to know.

    Raises UnavailableError where the table, the bucket or a cluster doesn't answer: then it is begun again, once it does.
    """
    core = await assemble(settings, aws)
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
    return [Settled(finding=one, written=await _settled(engine, one) if apply else None) for one in findings]


async def _settled(engine: Reconciliation, finding: Finding) -> bool | None:
    return await engine.settle(finding) if finding.found is not Found.FORGOTTEN else None


async def _objects(settings: Settings, region: str) -> list[Observed]:
    """The fleet's objects on a region's cluster."""
    async with reach(settings, region) as api, aclosing(whole_list(api, JOB.path(None), {"labelSelector": OURS})) as found:
        return [seen async for document in found if (seen := observed(document)) is not None]
