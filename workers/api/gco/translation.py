"""Between the core's words and this door's: records, states and filters."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from shared.errors import ForbiddenError, InvalidError, Problem, cut
from shared.identity.callers import Caller
from shared.jobs.model import Event, EventType, Head
from shared.jobs.states import State
from shared.store.listing import Filters
from workers.about import cluster_id
from workers.api.core import Core
from workers.api.gco.schemas import QueuedJob, StatusEntry

_ALIASES = {"completed": State.SUCCEEDED, "applying": State.CLAIMED}
"""`completed` and `succeeded` mean the same. The original's `applying` is the part of a claim in which the object is made."""
_SETBACKS = {EventType.FAILED, EventType.RETRY, EventType.INTERRUPTED, EventType.NOT_STARTED, EventType.CLAIM_LAPSED}


def allowed_namespace(core: Core, caller: Caller, namespace: str) -> str:
    """The namespace, which both the policy and the caller's key allow. Raises ForbiddenError."""
    if namespace not in core.policy.allowed_namespaces:
        raise ForbiddenError(f"Namespace '{cut(namespace)}' not allowed. Allowed namespaces: {list(core.policy.allowed_namespaces)}")
    caller.require_namespace(namespace)
    return namespace


def filters_of(core: Core, caller: Caller, *, region: str | None, status: str | None, namespace: str | None) -> Filters:
    """The filters of a list. Raises InvalidError for an unknown region or status, ForbiddenError for a namespace.

    A caller who is bound to namespaces and names none is given the jobs of all his.
    """
    problems = []
    if region is not None and region not in core.settings.regions:
        rule = f"target_region is not deployed; it must be one of {', '.join(sorted(core.settings.regions))}"
        problems.append(Problem(pointer="/target_region", value=region, rule=rule))
    state = _state(status, problems) if status is not None else None
    namespaces = caller.namespaces
    if namespace is not None:
        try:
            namespaces = frozenset({allowed_namespace(core, caller, namespace)})
        except ForbiddenError as forbidden:
            if not problems:
                raise
            problems.append(Problem(pointer="/namespace", value=namespace, rule=f"must be one that is allowed: {forbidden}"))
    if problems:
        raise InvalidError(problems)
    return Filters(region=region, namespaces=namespaces, states=frozenset({state} if state is not None else ()))


def _state(status: str, problems: list[Problem]) -> State | None:
    found = _ALIASES.get(status)
    if found is None and status in set(State):
        found = State(status)
    if found is None:
        rule = f"must be a status: {', '.join([*State, *_ALIASES])}"
        problems.append(Problem(pointer="/status", value=status, rule=rule))
    return found


def env(core: Core) -> dict[str, Any]:
    """The fields of `Env`."""
    return {"cluster_id": cluster_id(core.region), "region": core.region, "timestamp": core.clock.now()}


def record(head: Head, manifest: dict[str, Any], history: Sequence[StatusEntry]) -> QueuedJob:
    """A job's record, with only the fields set that it has."""
    fields: dict[str, Any] = {
        "job_id": head.id,
        "job_name": head.name,
        "target_region": head.region,
        "namespace": head.namespace,
        "status": head.state.value,
        "priority": head.priority,
        "manifest": manifest,
        "labels": head.labels,
        "submitted_at": head.submitted_at,
        "submitted_by": head.submitted_by,
        "claimed_by": head.claim.owner if head.claim else None,
        "claimed_at": head.claim.claimed_at if head.claim else None,
        "claim_generation": head.fence,
        "lease_expires_at": head.claim.expires_at if head.claim and head.state is State.CLAIMED else None,
        "completed_at": head.finished_at if head.state.terminal else None,
        "updated_at": head.updated_at,
        "k8s_job_name": head.object.name if head.object else None,
        "k8s_job_namespace": head.namespace if head.object else None,
        "k8s_job_uid": head.object.uid if head.object else None,
        "workload_not_created": head.state.terminal and head.object is None and head.execution == 1,
        "error_message": _error(head.reason, head.message) if head.state is State.FAILED else None,
        "status_history": list(history),
    }
    if head.spot is not None:
        fields["spot_max_price"] = _price(head.spot.max_price)
        fields["spot_instance_type"] = head.spot.instance_type
        if head.spot.checked_at is not None:
            fields["spot_gate_checked_at"] = head.spot.checked_at
        if head.spot.observed_price is not None:
            fields["spot_gate_observed_price"] = _price(head.spot.observed_price)
    return QueuedJob(**fields)


def history_of_events(events: Sequence[Event]) -> list[StatusEntry]:
    """The history of one job: every change of its state, from its events."""
    entries: list[StatusEntry] = []
    for event in events:
        if entries and entries[-1].status == event.state:
            continue
        entries.append(_entry(event.state, event.at, event.type, event.reason, event.message))
    return entries


def history_of_head(head: Head) -> list[StatusEntry]:
    """The history as far as the head itself knows it: what lists show, so that a page costs no query for each of its jobs.

    It has the steps of the current execution. Those of earlier ones, and claims that lapsed, are told where one job is asked for.
    """
    entries = [StatusEntry(status=State.QUEUED, timestamp=head.submitted_at)]
    if head.claim is not None:
        entries.append(StatusEntry(status=State.CLAIMED, timestamp=head.claim.claimed_at))
    if head.committed_at is not None:
        entries.append(StatusEntry(status=State.PENDING, timestamp=head.committed_at))
    if head.started_at is not None:
        entries.append(StatusEntry(status=State.RUNNING, timestamp=head.started_at))
    if head.state.terminal:
        kind = EventType.FAILED if head.state is State.FAILED else EventType(head.state.value)
        entries.append(_entry(head.state, head.finished_at or head.updated_at, kind, head.reason, head.message))
    return entries


def _entry(state: State, at: Any, kind: EventType, reason: str | None, message: str | None) -> StatusEntry:
    fields: dict[str, Any] = {"status": state.value, "timestamp": at}
    if kind in _SETBACKS:
        fields["error"] = _error(reason, message)
    elif reason or message:
        fields["message"] = _error(reason, message)
    return StatusEntry(**{name: value for name, value in fields.items() if value is not None})


def _error(reason: str | None, message: str | None) -> str | None:
    return ": ".join(dict.fromkeys(part for part in (reason, message) if part)) or None


def _price(price: Decimal) -> str:
    return f"{price:.6f}"
