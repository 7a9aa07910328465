"""From the cluster's documents to the fields of the GCO door's views of one Job, which the schemas of `detail_schemas` then hold to.

Values of environment variables are left behind here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from shared.clusters.job_events import ClusterEvent, JobEvents
from shared.clusters.job_lists import summary
from shared.clusters.observed import Document, observed
from shared.clusters.pod_metrics import ContainerUsage, Samples
from shared.clusters.scheduling import Machine, Scheduling
from shared.errors import NotFoundError

Fields = dict[str, Any]

_MIB: Final = 1024 * 1024
_NO_SAMPLE: Final = "Metrics not available"
_OF_CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime")
_OF_STATE: Final = ("startedAt", "finishedAt", "reason", "message", "exitCode")


def job_fields(job: Document, scheduling: Scheduling) -> Fields:
    """The fields of `JobDetailAnswer` without those of `Env`: what a list tells, and more."""
    listed = summary(job)
    spec: Document = job.get("spec") or {}
    pod_spec: Document = (spec.get("template") or {}).get("spec") or {}
    conditions = [_picked(one, _OF_CONDITION) for one in (job.get("status") or {}).get("conditions") or ()]
    ours = observed(job)
    return {
        **listed,
        "metadata": {**listed["metadata"], "annotations": job["metadata"].get("annotations") or {}},
        "spec": {**listed["spec"], "suspend": bool(spec.get("suspend")), "template": {"spec": _containers(pod_spec)}},
        "status": {**listed["status"], "conditions": conditions},
        "scheduling": _scheduling(scheduling),
        "execution": ours.execution if ours else None,
    }


def _picked(found: Document, keys: Sequence[str]) -> Fields:
    return {key: found.get(key) for key in keys}


def _containers(spec: Document) -> Fields:
    return {
        group: [{"name": one["name"], "image": one.get("image") or ""} for one in spec.get(group) or ()]
        for group in ("containers", "initContainers")
    }


def _scheduling(scheduling: Scheduling) -> Fields:
    """Where pods are, with the node of the oldest of them in front, which stays the same while retries add others."""
    nodes = [
        {**asdict(machine), "pods": [{"name": pod["metadata"]["name"], "phase": _phase(pod)} for pod in scheduling.pods[name]]}
        for name, machine in scheduling.machines.items()
    ]
    first = nodes[0] if nodes else {}
    return {
        "node_name": first.get("name"),
        "node_instance_type": first.get("instance_type"),
        "node_capacity_type": first.get("capacity_type"),
        "node_labels": first.get("labels", {}),
        "nodes": nodes,
        "unscheduled_pods": len(scheduling.unscheduled),
        "unscheduled": [{"name": one.pod, "reason": one.reason} for one in scheduling.unscheduled],
        "node_lookup_error": scheduling.error,
    }


def _phase(pod: Document) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def event_fields(found: JobEvents) -> Fields:
    """The fields of `JobEventsAnswer` that tell of events."""
    hints = []
    if found.left_out:
        hints.append(f"{found.left_out} older events are left out")
    if found.unread:
        hints.append("the namespace has so many events that those of some pods were not looked for")
    return {
        "count": len(found.events),
        "events": [_event(one) for one in found.events],
        "truncated": bool(hints),
        "hint": "; ".join([*hints, "kubectl events shows all"]) if hints else None,
    }


def _event(event: ClusterEvent) -> Fields:
    return {
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": event.count,
        "firstTimestamp": event.first,
        "lastTimestamp": event.last,
        "source": {"component": event.component, "host": event.host},
        "involvedObject": {"kind": event.kind, "name": event.name, "namespace": event.namespace},
    }


def pod_fields(pods: Sequence[Document], scheduling: Scheduling) -> Fields:
    """The fields of `JobPodsAnswer` that tell of pods."""
    views = [_pod(pod, scheduling.machines) for pod in pods]
    return {"count": len(views), "pods": views, "scheduling": _scheduling(scheduling)}


def _pod(pod: Document, machines: Mapping[str, Machine]) -> Fields:
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    machine = machines.get(spec.get("nodeName") or "")
    statuses = {group: [_container(one) for one in status.get(group) or ()] for group in ("containerStatuses", "initContainerStatuses")}
    return {
        "metadata": {**_picked(metadata, ("name", "namespace", "creationTimestamp", "uid")), "labels": metadata.get("labels") or {}},
        "spec": {"nodeName": spec.get("nodeName"), **_containers(spec)},
        "status": {
            **_picked(status, ("hostIP", "podIP", "startTime", "reason", "message")),
            "phase": _phase(pod),
            **statuses,
        },
        "node": asdict(machine) if machine else None,
    }


def _container(found: Document) -> Fields:
    """A container's status, with only those fields that its state has."""
    fields: Fields = {
        "name": found["name"],
        "ready": bool(found.get("ready")),
        "restartCount": found.get("restartCount") or 0,
        "image": found.get("image") or "",
    }
    for state, told in (found.get("state") or {}).items():
        fields |= {"state": state, **{key: told[key] for key in _OF_STATE if told.get(key) is not None}}
    return fields


def metric_fields(job_name: str, pods: Sequence[Document], samples: Samples) -> Fields:
    """The fields of `JobMetricsAnswer` that tell of usage. Raises NotFoundError where there is no pod, as in the original."""
    if not pods:
        raise NotFoundError("Pods of Job", job_name, hint="it has not started, is suspended, or its pods are gone")
    views: list[Fields] = []
    used: list[ContainerUsage] = []
    for pod in pods:
        name = pod["metadata"]["name"]
        sample = samples.pods.get(name)
        if sample is None:
            views.append({"pod_name": name, "error": _why(pod, samples)})
        else:
            used += sample
            views.append({"pod_name": name, "containers": [{**asdict(one), "memory_mib": _mib(one.memory_bytes)} for one in sample]})
    memory = sum(one.memory_bytes for one in used)
    summed = {
        "total_cpu_millicores": sum(one.cpu_millicores for one in used),
        "total_memory_bytes": memory,
        "total_memory_mib": _mib(memory),
        "pod_count": len(pods),
    }
    return {"available": samples.unavailable is None, "message": samples.unavailable, "summary": summed, "pods": views}


def _why(pod: Document, samples: Samples) -> str:
    return _NO_SAMPLE if samples.unavailable else f"{_NO_SAMPLE}: there is no sample of this pod, which is {_phase(pod)}"


def _mib(number: int) -> float:
    return round(number / _MIB, 2)
