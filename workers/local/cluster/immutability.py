"""What may not change in an object that exists. Kubernetes: `ValidateJobUpdate` and `ValidatePodUpdate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workers.local.cluster.answers import Cause
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object, holds
from workers.local.cluster.validation import FORBIDDEN

# Kubernetes, "Mutable Scheduling Directives": what a queue controller may set while a Job is suspended.
_SCHEDULING = ("affinity", "nodeSelector", "schedulingGates", "tolerations")
_IMMUTABLE = "field is immutable"


def _cause(field: str, message: str = _IMMUTABLE) -> Cause:
    return Cause(field=field, message=f"Invalid value: {message}")


def changes_refused(kind: Kind, old: Object, new: Object) -> Iterator[Cause]:
    """The changes between two versions that the API server refuses."""
    if old.get("spec") == new.get("spec"):
        if kind.kind in ("ConfigMap", "Secret") and old.get("immutable"):
            yield from _immutable_data(old, new)
        return
    if kind.kind == "Job":
        yield from _job(old, new)
    elif kind.kind == "Pod":
        yield from _pod(old["spec"], new.get("spec") or {})
    elif kind.group == "apps" and (old.get("spec") or {}).get("selector") != (new.get("spec") or {}).get("selector"):
        yield _cause("spec.selector")


def _immutable_data(old: Object, new: Object) -> Iterator[Cause]:
    for field in ("data", "binaryData"):
        if old.get(field) != new.get(field):
            yield Cause(field=field, message="Forbidden: field is immutable when `immutable` is set", reason=FORBIDDEN)


def _job(old: Object, new: Object) -> Iterator[Cause]:
    before, after = old["spec"], new.get("spec") or {}
    elastic = after.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism")
    if before.get("completions") != after.get("completions") and not elastic:
        yield _cause("spec.completions")
    for field in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"):
        if before.get(field) != after.get(field):
            yield _cause(f"spec.{field}")
    if before["template"] == after.get("template"):
        return
    # A Job may be changed where it is suspended and has not started, or has stopped again.
    status = old.get("status") or {}
    stopped = bool(before.get("suspend")) and (not status.get("startTime") or holds(status, "Suspended"))
    if not stopped or _without_scheduling(before["template"]) != _without_scheduling(after.get("template") or {}):
        yield _cause("spec.template")


def _without_scheduling(template: Object) -> tuple[Any, Any, Any]:
    metadata = template.get("metadata") or {}
    kept = {key: value for key, value in metadata.items() if key not in ("labels", "annotations")}
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in _SCHEDULING}
    containers = [_without_resources(container) for container in spec.pop("containers", ())]
    return kept, spec, containers


def _without_resources(container: Object) -> Object:
    # Kubernetes 1.36, "MutablePodResourcesForSuspendedJobs".
    return {key: value for key, value in container.items() if key != "resources"}


def _pod(before: Object, after: Object) -> Iterator[Cause]:
    gates_before = [gate["name"] for gate in before.get("schedulingGates") or ()]
    gates_after = [gate["name"] for gate in after.get("schedulingGates") or ()]
    if any(gate not in gates_before for gate in gates_after):
        message = "Forbidden: only deletion is allowed, but found new scheduling gates"
        yield Cause(field="spec.schedulingGates", message=message, reason=FORBIDDEN)
    free = {"schedulingGates", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"}
    if gates_before:
        free |= {"nodeSelector", "affinity"}
    if _pod_core(before, free) != _pod_core(after, free):
        message = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`,"
            " `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations)"
        )
        yield Cause(field="spec", message=message, reason=FORBIDDEN)


def _pod_core(spec: Object, free: set[str]) -> Object:
    core = {key: value for key, value in spec.items() if key not in free}
    for group in ("containers", "initContainers"):
        if group in core:
            core[group] = [{**container, "image": None} for container in core[group]]
    return core
