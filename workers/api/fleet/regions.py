"""Regions: which take jobs, which are drained, and what is left there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

import structlog
from fastapi import APIRouter

from shared.identity.callers import Caller
from shared.jobs.regions import OPEN_SECONDS, RegionStatus
from shared.jobs.states import State
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import Administrator, CoreOf, Reader
from workers.api.errors import answers
from workers.api.fleet.region_schemas import DrainRequest, RegionAnswer, RegionJobs, RegionsAnswer, ResumeRequest

log = structlog.get_logger()

FOLLOWED: Final = timedelta(seconds=2 * OPEN_SECONDS)
"""How long after its drain no dispatcher looks for jobs of a region any more, with room for a look that is under way."""

router = APIRouter(prefix="/regions", tags=["Fleet: regions"], route_class=StrictRoute)


@router.get("", responses=answers(401, 403, 422, 429, 503))
async def list_regions(core: CoreOf, caller: Reader) -> RegionsAnswer:
    """Whether each region takes jobs, since when, by whom and why, and how many of its jobs have not ended: two or three reads."""
    statuses = await core.regions.statuses(core.settings.regions)
    counts = await _counts(core, caller)
    return RegionsAnswer(regions=[_answer(core, statuses[region], counts.get(region)) for region in core.settings.regions])


@router.post("/{region}/drain", responses=answers(401, 403, 404, 409, 413, 422, 429, 503))
async def drain_region(region: str, core: CoreOf, caller: Administrator, body: DrainRequest | None = None) -> RegionAnswer:
    """Claim nothing more in a region; what runs there goes on. Dispatchers follow within five seconds, the sweeper within a minute.

    The region is `draining` until nothing is claimed or runs there and no claim can come any more: ten seconds where nothing is queued
    there, and else half of a lease more.
    Asked again with the same options it changes nothing, with others these hold from then on.
    """
    caller.require_all_namespaces("draining a region")
    body = body or DrainRequest()
    status = await core.region_control.drain(region, by=caller.name, reason=body.reason, move=body.move, interrupt=body.interrupt)
    log.info("region drained", region=region, by=caller.name, reason=body.reason, move=body.move, interrupt=body.interrupt)
    return _answer(core, status, (await _counts(core, caller)).get(region))


@router.post("/{region}/resume", responses=answers(401, 403, 404, 409, 413, 422, 429, 503))
async def resume_region(region: str, core: CoreOf, caller: Administrator, body: ResumeRequest | None = None) -> RegionAnswer:
    """Claim in a region again, at once. For one that is open this changes nothing."""
    caller.require_all_namespaces("resuming a region")
    status = await core.region_control.resume(region, by=caller.name, reason=body.reason if body else None)
    log.info("region resumed", region=region, by=caller.name)
    return _answer(core, status, (await _counts(core, caller)).get(region))


async def _counts(core: Core, caller: Caller) -> Mapping[str, Mapping[State, int]]:
    return await core.counters.by_region(core.settings.regions) if caller.namespaces is None else {}


def _answer(core: Core, status: RegionStatus, counts: Mapping[State, int] | None) -> RegionAnswer:
    return RegionAnswer(
        region=status.region,
        state=_state(status, counts, core.clock.now(), core.settings.lease),
        since=status.since,
        by=status.by,
        reason=status.reason,
        move=status.move,
        interrupt=status.interrupt,
        jobs=RegionJobs(**{state.value: counts[state] for state in State if not state.terminal}) if counts is not None else None,
    )


def _state(
    status: RegionStatus, counts: Mapping[State, int] | None, now: datetime, lease: timedelta
) -> Literal["open", "draining", "drained"]:
    if not status.drained or status.since is None:
        return "open"
    at_work = sum(number for state, number in (counts or {}).items() if state is State.CLAIMED or state.on_cluster)
    # A claim without an answer is tried again for half of its lease. A claimed job counts as queued (`shared.store.counters`), so where
    # none does, no claim can come. Who may see some namespaces only isn't told of counts.
    may_come = counts is None or counts[State.QUEUED] > 0
    settled = FOLLOWED + lease / 2 if may_come else FOLLOWED
    return "draining" if at_work or now - status.since < settled else "drained"
