"""What was measured of GPUs over time, from CloudWatch or Prometheus. What reads them is imported by the first request."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query

from shared.identity.callers import Caller
from shared.metrics.queries import Aggregation
from shared.metrics.queries import Query as MetricQuery
from shared.metrics.vocabulary import Measure
from workers.api.bodies import StrictRoute
from workers.api.dependencies import CoreOf, Reader
from workers.api.errors import answers
from workers.api.fleet.metric_schemas import MeasuredPoint, MeasuredSeries, MeasuredSeriesAnswer

if TYPE_CHECKING:
    from shared.metrics.queries import Series

HOUR: Final = timedelta(hours=1)

Of = Annotated[Measure, Query(description="What was measured")]
How = Annotated[Aggregation, Query(description="What is made of the devices of a group")]
By = Annotated[str, Query(max_length=200, description="What each series is of, separated by commas: `region,node`; nothing for one of all")]
Filter = Annotated[str | None, Query(max_length=1024)]
Moment = Annotated[str | None, Query(max_length=64, description="ISO 8601 with a zone")]

router = APIRouter(prefix="/metrics", tags=["Fleet: metrics"], route_class=StrictRoute)


@router.get("/range", responses=answers(401, 403, 422, 429, 503))
async def query_range(
    core: CoreOf,
    caller: Reader,
    measure: Of,
    start: Moment = None,
    end: Moment = None,
    step: Annotated[int | None, Query(description="Seconds; chosen by the span unless said")] = None,
    aggregation: How = Aggregation.AVG,
    by: By = "",
    region: Filter = None,
    node: Filter = None,
    device: Filter = None,
    namespace: Filter = None,
    project: Filter = None,
    job_id: Filter = None,
) -> MeasuredSeriesAnswer:
    """Series of the last eight days, a point for each step; null where nothing was measured. The last hour, unless said."""
    named = {"region": region, "node": node, "device": device, "namespace": namespace, "project": project, "job_id": job_id}
    query = _query(caller, measure, aggregation, by, named)
    async with core.metrics.queries() as queries:
        now = core.clock.now()
        return _answer(query, await queries.range(query, now - HOUR if start is None else start, now if end is None else end, step))


@router.get("/instant", responses=answers(401, 403, 422, 429, 503))
async def query_instant(
    core: CoreOf,
    caller: Reader,
    measure: Of,
    at: Moment = None,
    aggregation: How = Aggregation.AVG,
    by: By = "",
    region: Filter = None,
    node: Filter = None,
    device: Filter = None,
    namespace: Filter = None,
    project: Filter = None,
    job_id: Filter = None,
) -> MeasuredSeriesAnswer:
    """One point a group: of the newest minute, of the five before `at` (now, unless said), in which its region was scraped.

    The point's time is the end of that minute (of several regions', the earliest). What was not measured in it, such as a job that has
    ended, is not there.
    """
    named = {"region": region, "node": node, "device": device, "namespace": namespace, "project": project, "job_id": job_id}
    query = _query(caller, measure, aggregation, by, named)
    async with core.metrics.queries() as queries:
        return _answer(query, await queries.instant(query, at))


def _query(caller: Caller, measure: Measure, aggregation: Aggregation, by: str, named: dict[str, str | None]) -> MetricQuery:
    """Raises InvalidError; ForbiddenError where a caller who is bound to namespaces asks for more than one of them."""
    from shared.metrics.queries import query_of

    namespace = named["namespace"]
    if namespace is not None:
        caller.require_namespace(namespace)
    else:
        caller.require_all_namespaces("a question about GPUs that names no namespace")
    labels = [part.strip() for part in by.split(",") if part.strip()]
    return query_of(measure, aggregation, labels, {name: value for name, value in named.items() if value is not None})


def _answer(query: MetricQuery, found: list[Series]) -> MeasuredSeriesAnswer:
    from shared.metrics.vocabulary import UNITS

    series = [
        MeasuredSeries(
            labels={label.value: value for label, value in one.labels.items()},
            points=[MeasuredPoint(time=time, value=value) for time, value in one.points],
        )
        for one in found
    ]
    unit = "devices" if query.aggregation == "count" else UNITS[query.measure]
    return MeasuredSeriesAnswer(measure=query.measure, aggregation=query.aggregation, unit=unit, series=series)
