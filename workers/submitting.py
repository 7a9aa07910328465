"""The way in: admission, placement and submission over the parts that every worker has, the same for every door and queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shared.errors import Problem
from shared.jobs.fields import envelope
from shared.jobs.placement import RegionPlacement
from shared.jobs.submission import Submission
from shared.policy.gate import Gate
from shared.policy.settings import Policy
from shared.settings import Settings
from shared.store.cluster_reports import ClusterReports
from shared.store.counters import Counters
from shared.store.regions import Regions
from workers.assembly import Core


@dataclass(frozen=True, kw_only=True, slots=True)
class WayIn:
    """What takes jobs in."""

    gate: Gate
    submission: Submission
    counters: Counters
    reports: ClusterReports


def gate(settings: Settings) -> Gate:
    """Admission by the policy of the settings. Raises PolicyFileError for a bad policy file."""
    if settings.policy_file is None:
        return Gate(Policy())
    from shared.policy.loading import load_policy

    return Gate(load_policy(settings.policy_file))


def way_in(core: Core, admission: Gate | None = None) -> WayIn:
    """The way in over a core; `admission` where the policy has been read already. Raises PolicyFileError for a bad policy file."""
    settings = core.settings
    admission = admission or gate(settings)
    counters = Counters(core.table, core.layout)
    reports = ClusterReports(core.table)
    placement = RegionPlacement(regions=settings.regions, facts=Regions(core.table), backlog=counters, clock=core.clock)
    submission = Submission(
        store=core.store, admission=admission, placement=placement, doorbell=core.doorbell, clock=core.clock, ids=core.ids
    )
    return WayIn(gate=admission, submission=submission, counters=counters, reports=reports)


def further_problems(
    submission: Submission, gate: Gate, document: Any, *, told: Iterable[str], idempotency_key: str | None = None
) -> tuple[Problem, ...]:
    """What else is wrong with a body of which some fields can't be read, so that everything is told at once.

    `told` are the pointers of the problems that are known already; no place is told of twice. A `document` that is no object has no more.
    Checks a whole manifest, so a caller on a loop that many share asks in a thread.
    """
    if not isinstance(document, dict):
        return ()
    found = [*submission.envelope_problems(envelope(document, idempotency_key=idempotency_key)), *gate.further_problems(document)]
    known = set(told)
    return tuple(problem for problem in found if problem.pointer not in known)
