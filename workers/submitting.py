"""The way in: admission, placement and submission over the parts that every worker has, the same for every door and queue."""

from __future__ import annotations

from dataclasses import dataclass

from shared.jobs.placement import RegionPlacement
from shared.jobs.submission import Submission
from shared.policy.gate import Gate
from shared.policy.loading import load_policy
from shared.store.cluster_reports import ClusterReports
from shared.store.counters import Counters
from workers.assembly import Core


@dataclass(frozen=True, kw_only=True, slots=True)
class WayIn:
    """What takes jobs in."""

    gate: Gate
    submission: Submission
    counters: Counters
    reports: ClusterReports


def way_in(core: Core) -> WayIn:
    """The way in over a core. Raises InvalidError or OSError for a bad policy file."""
    settings = core.settings
    gate = Gate(load_policy(settings.policy_file))
    counters = Counters(core.table, core.layout)
    reports = ClusterReports(core.table)
    placement = RegionPlacement(regions=settings.regions, reports=reports, backlog=counters, clock=core.clock)
    submission = Submission(store=core.store, admission=gate, placement=placement, doorbell=core.doorbell, clock=core.clock, ids=core.ids)
    return WayIn(gate=gate, submission=submission, counters=counters, reports=reports)
