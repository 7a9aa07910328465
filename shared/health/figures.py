"""A snapshot as figures, each of one name, unit and set of labels; Prometheus and CloudWatch are told the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.health.model import Backlog, FleetHealth, LoopState, RegionHealth

SECONDS: Final = "Seconds"
COUNT: Final = "Count"
"""Units, by CloudWatch's names."""

TEXTS: Final[Mapping[str, str]] = {
    "fleet_jobs": "jobs by state, of those that have not ended",
    "fleet_ready_jobs": "jobs that could be claimed now",
    "fleet_ready_oldest_seconds": "since the oldest job that could be claimed was submitted; 0 in a drained region, where none can be",
    "fleet_region_drained": "1 where nothing is claimed, since an operator has drained the region",
    "fleet_claimed_jobs": "jobs that are claimed and not yet committed",
    "fleet_claim_oldest_seconds": "since the oldest claim was made",
    "fleet_overdue_marks": "due marks whose time has passed",
    "fleet_overdue_oldest_seconds": "since the time of the oldest of them",
    "fleet_dispatch_median_seconds": "from submission to commit, of the newest jobs",
    "fleet_dispatch_most_seconds": "the longest of these",
    "fleet_observed_age_seconds": "since the observer told of the cluster",
    "fleet_scrape_age_seconds": "since the GPUs were read",
    "fleet_dead_letters": "dead letters of a queue",
    "fleet_webhooks": "webhooks",
    "fleet_webhooks_disabled": "webhooks that were disabled for failing",
    "fleet_deliveries_waiting": "deliveries that are on their way",
    "fleet_delivery_overdue_seconds": "since the oldest of them should have been sent",
    "fleet_loops": "loops of workers by how they are",
    "fleet_loop_pass_age_seconds": "since the last good pass of any loop of a worker, as told: every 30 minutes if all is well",
    "fleet_health_unread": "parts of the fleet's health that could not be read, or of which nobody ever told",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One figure. Its name is one of `TEXTS`."""

    name: str
    value: float
    unit: str = COUNT
    labels: Mapping[str, str] = field(default_factory=dict)


def figures_of(health: FleetHealth) -> list[Figure]:
    """All figures. An age of what isn't there is 0, so that an alarm on it ends; one of what was never told is left out."""
    found = [figure for region in health.regions for figure in _of_region(region)]
    found += [Figure(name="fleet_dead_letters", value=one.dead_letters, labels={"queue": one.queue}) for one in health.queues]
    if (webhooks := health.webhooks) is not None:
        found += [
            Figure(name="fleet_webhooks", value=webhooks.webhooks),
            Figure(name="fleet_webhooks_disabled", value=webhooks.disabled),
            Figure(name="fleet_deliveries_waiting", value=webhooks.waiting),
            Figure(name="fleet_delivery_overdue_seconds", value=webhooks.overdue_seconds or 0.0, unit=SECONDS),
        ]
    found += _of_loops(health)
    found.append(Figure(name="fleet_health_unread", value=len(health.unread)))
    return found


def _of_region(one: RegionHealth) -> Iterator[Figure]:
    where = {"region": one.region}
    for state in ("queued", "claimed", "pending", "running"):
        yield Figure(name="fleet_jobs", value=one.jobs.get(state, 0), labels=where | {"state": state})
    yield Figure(name="fleet_region_drained", value=int(one.drained), labels=where)
    waiting = one.ready.model_copy(update={"oldest_seconds": None}) if one.drained else one.ready
    yield from _of_backlog(waiting, "fleet_ready_jobs", "fleet_ready_oldest_seconds", where)
    yield from _of_backlog(one.claims, "fleet_claimed_jobs", "fleet_claim_oldest_seconds", where)
    yield from _of_backlog(one.overdue, "fleet_overdue_marks", "fleet_overdue_oldest_seconds", where)
    known = {
        "fleet_dispatch_median_seconds": one.dispatched.median_seconds if one.dispatched else None,
        "fleet_dispatch_most_seconds": one.dispatched.most_seconds if one.dispatched else None,
        "fleet_observed_age_seconds": one.observed_seconds,
        "fleet_scrape_age_seconds": one.scraped_seconds,
    }
    for name, value in known.items():
        if value is not None:
            yield Figure(name=name, value=value, unit=SECONDS, labels=where)


def _of_backlog(backlog: Backlog, count: str, oldest: str, where: Mapping[str, str]) -> Iterator[Figure]:
    yield Figure(name=count, value=backlog.count, labels=where)
    yield Figure(name=oldest, value=backlog.oldest_seconds or 0.0, unit=SECONDS, labels=where)


def _of_loops(health: FleetHealth) -> Iterator[Figure]:
    """By worker and region; processes are not told apart, since their names come and go, and each would be a metric of its own."""
    groups = sorted({(loop.worker, loop.region or "all") for loop in health.loops})
    for worker, region in groups:
        labels = {"worker": worker, "region": region}
        mine = [loop for loop in health.loops if (loop.worker, loop.region or "all") == (worker, region)]
        for state in LoopState:
            yield Figure(name="fleet_loops", value=sum(loop.state is state for loop in mine), labels=labels | {"state": state.value})
        passed = [loop.passed_seconds for loop in mine if loop.passed_seconds is not None]
        if passed:
            yield Figure(name="fleet_loop_pass_age_seconds", value=min(passed), unit=SECONDS, labels=labels)


UNREAD: Final = [Figure(name="fleet_health_unread", value=1)]
"""All that is told where nothing could be read."""
