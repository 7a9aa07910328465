"""The cost group of the GCO door: what each namespace costs, as reports."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from shared.costs.reports import CostReports
from shared.errors import NotFoundError, NotHereError
from workers.about import SERVICE
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import READS, Administrator, CoreOf, Reader
from workers.api.errors import answers
from workers.api.gco.cost_schemas import (
    CostReport,
    CostReportAnswer,
    CostReportListAnswer,
    CostReportRequest,
    CostRow,
    CostStatusAnswer,
    StoredCostReport,
)

router = APIRouter(prefix="/api/v1/cost", tags=["Cost"], route_class=StrictRoute)


@router.get("/status", responses=answers(401, 403, 422, 429, 503))
async def get_cost_status(core: CoreOf, caller: Reader) -> CostStatusAnswer:
    """Whether costs are measured in this region, and the last report. Who is bound to namespaces is told of those only, and no sums."""
    status = await _costs(core).status()
    if caller.namespaces is not None:
        names = list(caller.within(status.allocation_names))
        status = status.model_copy(update={"allocation_names": names, "last_scheduled_report": None})
    return CostStatusAnswer.of(status, service=SERVICE, region=core.region, timestamp=core.clock.now())


@router.get("/reports", dependencies=[READS], responses=answers(401, 403, 422, 429, 503))
async def list_cost_reports(core: CoreOf, adhoc: bool = False, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> CostReportListAnswer:
    """The newest reports: those that the worker writes on its schedule, or those that were asked for."""
    costs = _costs(core)
    reports = [StoredCostReport.of(one) for one in await costs.stored(adhoc=adhoc, limit=limit)]
    return CostReportListAnswer(timestamp=core.clock.now(), region=core.region, bucket=costs.bucket, count=len(reports), reports=reports)


@router.post(
    "/reports",
    status_code=201,
    response_model_exclude_unset=True,
    responses=answers(401, 403, 413, 422, 429, 503),
)
async def generate_cost_report(body: CostReportRequest, core: CoreOf, caller: Administrator) -> CostReportAnswer:
    """Write a report of the last hours now. It concerns all namespaces, and so is for administrators."""
    caller.require_all_namespaces("a cost report")
    try:
        made = await _costs(core).generate(window_hours=body.window_hours)
    except NotFoundError as error:  # GCO has no 404 here: what costs are made of is missing
        raise NotHereError(str(error)) from error
    answer = CostReportAnswer(timestamp=core.clock.now(), region=core.region, bucket=made.bucket, report=CostReport.of(made.report))
    return answer.model_copy(update={"rows": [CostRow.of(row) for row in made.rows]}) if body.include_rows else answer


def _costs(core: Core) -> CostReports:
    if core.costs is None:
        raise NotHereError("Cost monitoring is unavailable in this region: nothing that knows of costs runs beside this API")
    return core.costs
