"""Costs: what was used and paid, by whatever it is to be told, and the reports that it is read from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from shared.costs.model import Window
from shared.costs.report_keys import ReportKeys
from shared.costs.totals import By
from shared.costs.windows import last_hours, next_due
from shared.errors import InvalidError, NotFoundError, NotHereError, Problem
from shared.times import Moment
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import READS, Administrator, CoreOf, Reader
from workers.api.errors import answers
from workers.api.fleet.cost_schemas import (
    CostReportEntry,
    CostReportsAnswer,
    CostReportTotalsAnswer,
    CostReportWanted,
    CostsOfTimeAnswer,
    CostSummary,
)
from workers.costing import Costing

router = APIRouter(prefix="/costs", tags=["Fleet: costs"], route_class=StrictRoute)

Region = Annotated[str | None, Query(min_length=1, max_length=64, description="That of this API, unless said.")]
Label = Annotated[str | None, Query(min_length=1, max_length=316, description="The key of a label; with `by=label` only.")]
Limit = Annotated[int, Query(ge=1, le=1000)]
_DAY = timedelta(hours=24)


@router.get("", responses=answers(401, 403, 404, 422, 429, 503))
async def get_costs(
    core: CoreOf,
    caller: Reader,
    region: Region = None,
    since: Annotated[Moment | None, Query(alias="from", description="24 hours before the end, unless said.")] = None,
    to: Annotated[Moment | None, Query(description="Now, unless said.")] = None,
    by: By = By.NAMESPACE,
    label: Label = None,
    limit: Limit = 100,
) -> CostsOfTimeAnswer:
    """Totals of the scheduled reports of at most 31 days; 404 where none lies within the time, of which nothing is known then.

    Who is bound to namespaces sees what is theirs, and nothing of what was idle.
    """
    costing = _costing(core)
    chosen = costing.known(region or core.region)
    window = _window(core, since, to)
    found = await costing.queries.over(chosen, window, by, label=label, namespaces=caller.namespaces)
    due = next_due(core.clock.now(), costing.length)
    if not found.reports:
        hint = f"none of the schedule lies within this time; the next is written after {_told(due)}"
        raise NotFoundError("Cost report", f"{chosen}, {_told(window.start)} to {_told(window.end)}", hint=hint)
    return CostsOfTimeAnswer.of(found, region=chosen, by=by, label=label, limit=limit, next_report_after=due)


@router.get("/reports", dependencies=[READS], responses=answers(401, 403, 422, 429, 503))
async def list_reports(core: CoreOf, region: Region = None, adhoc: bool = False, limit: Limit = 50) -> CostReportsAnswer:
    """The newest reports: those of the schedule, or those that were asked for."""
    costing = _costing(core)
    chosen = costing.known(region or core.region)
    found = await costing.store.newest(chosen, adhoc=adhoc, limit=limit)
    reports = [CostReportEntry.of(keys, listed) for keys, listed in found]
    return CostReportsAnswer(region=chosen, bucket=core.settings.bucket, reports=reports)


@router.get("/reports/{key:path}", responses=answers(401, 403, 404, 422, 429, 503))
async def get_report(
    key: str, core: CoreOf, caller: Reader, region: Region = None, by: By = By.NAMESPACE, label: Label = None, limit: Limit = 100
) -> CostReportTotalsAnswer:
    """One report by its key, or the newest of the schedule as `latest`; `region` is for the latter."""
    costing = _costing(core)
    queries = costing.queries
    if key == "latest":
        key = await queries.latest(costing.known(region or core.region))
    found = await queries.of_report(key, by, label=label, namespaces=caller.namespaces)
    keys = ReportKeys.parse(key)
    summary = await costing.store.summary(keys) if keys is not None and caller.namespaces is None else None
    told = CostSummary(**dict(summary)) if summary is not None else None
    chosen = keys.region if keys is not None else core.region
    return CostReportTotalsAnswer.of(found, region=chosen, by=by, label=label, limit=limit, key=key, summary=told)


@router.post("/reports", status_code=201, responses=answers(401, 403, 404, 413, 422, 429, 503))
async def write_report(body: CostReportWanted, core: CoreOf, caller: Administrator) -> CostSummary:
    """Write a report now, of any time of which usage is known; 404 where none is."""
    caller.require_all_namespaces("a cost report")
    costing = _costing(core)
    region = costing.known(body.region or core.region)
    if body.start is None and body.end is None:
        window = last_hours(body.hours or 24, now=core.clock.now())
    elif body.hours is not None or body.start is None or body.end is None:
        rule = "must be given alone, or both `start` and `end` instead of it"
        raise InvalidError([Problem(pointer="/hours", value=body.hours, rule=rule)])
    else:
        window = Window(body.start, body.end)
    summary, _ = await costing.region(region).generate_window(window)
    return CostSummary(**dict(summary))


def _window(core: Core, since: datetime | None, to: datetime | None) -> Window:
    end = to or core.clock.now()
    start = since or end - _DAY
    if end <= start:
        raise InvalidError([Problem(pointer="/to", value=end.isoformat(), rule=f"must be after the beginning, {start.isoformat()}")])
    return Window(start, end)


def _told(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _costing(core: Core) -> Costing:
    if core.costing is None:
        raise NotHereError("costs are unknown here: nothing that knows of them runs beside this API")
    return core.costing
