"""From the cluster's documents to the bodies of the GCO door's views of one Job. Values of environment variables are left behind here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.clusters.job_events import ClusterEvent, JobEvents
from shared.clusters.job_status import computed_status
from shared.clusters.observed import Document, moment, observed
from shared.clusters.pod_metrics import ContainerUsage, Samples
from shared.clusters.scheduling import Machine, Scheduling
from shared.errors import NotFoundError
from workers.api.gco.detail_schemas import (
    ContainerImage,
    ContainerMetrics,
    ContainerStatus,
    DetailedCondition,
    DetailedMetadata,
    DetailedPodTemplate,
    DetailedSpec,
    DetailedStatus,
    DetailedTemplate,
    EventObject,
    EventSource,
    JobEvent,
    JobPod,
    MetricsSummary,
    NodeBlock,
    NodeWithPods,
    PodMetadata,
    PodMetrics,
    PodPhase,
    PodSpec,
    PodStatus,
    PodWithoutMetrics,
    SchedulingBlock,
    UnscheduledPod,
)

_MIB = 1024 * 1024
_NO_SAMPLE = "Metrics not available"


def job_fields(job: Document, scheduling: Scheduling) -> dict[str, Any]:
    """The fields of `JobDetailAnswer` without those of `Env`."""
    metadata, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    pod_spec: Document = (spec.get("template") or {}).get("spec") or {}
    ours = observed(job)
    return {
        "metadata": DetailedMetadata(
            name=metadata["name"],
            namespace=metadata["namespace"],
            creation_timestamp=moment(metadata.get("creationTimestamp")),
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            uid=metadata["uid"],
        ),
        "spec": DetailedSpec(
            parallelism=spec.get("parallelism"),
            completions=spec.get("completions"),
            backoff_limit=spec.get("backoffLimit"),
            suspend=bool(spec.get("suspend")),
            template=DetailedTemplate(
                spec=DetailedPodTemplate(containers=_images(pod_spec, "containers"), init_containers=_images(pod_spec, "initContainers"))
            ),
        ),
        "status": DetailedStatus(
            active=status.get("active") or 0,
            succeeded=status.get("succeeded") or 0,
            failed=status.get("failed") or 0,
            start_time=moment(status.get("startTime")),
            completion_time=moment(status.get("completionTime")),
            conditions=[_condition(one) for one in status.get("conditions") or ()],
        ),
        "computed_status": computed_status(job).value,
        "scheduling": scheduling_block(scheduling),
        "job_id": ours.job_id if ours else None,
        "execution": ours.execution if ours else None,
    }


def _images(spec: Document, group: str) -> list[ContainerImage]:
    return [ContainerImage(name=one["name"], image=one.get("image") or "") for one in spec.get(group) or ()]


def _condition(found: Document) -> DetailedCondition:
    return DetailedCondition(
        type=found["type"],
        status=found["status"],
        reason=found.get("reason"),
        message=found.get("message"),
        last_transition_time=moment(found.get("lastTransitionTime")),
    )


def scheduling_block(scheduling: Scheduling) -> SchedulingBlock:
    """Where pods are, with the node of the oldest of them in front, which stays the same while retries add others."""
    first = next(iter(scheduling.machines.values()), None)
    return SchedulingBlock(
        node_name=first.name if first else None,
        node_instance_type=first.instance_type if first else None,
        node_capacity_type=first.capacity_type if first else None,
        node_labels=dict(first.labels) if first else {},
        nodes=[NodeWithPods(**_node(machine), pods=_phases(scheduling.pods[name])) for name, machine in scheduling.machines.items()],
        unscheduled_pods=len(scheduling.unscheduled),
        unscheduled=[UnscheduledPod(name=one.pod, reason=one.reason) for one in scheduling.unscheduled],
        node_lookup_error=scheduling.error,
    )


def _node(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "instance_type": machine.instance_type,
        "capacity_type": machine.capacity_type,
        "labels": dict(machine.labels),
    }


def _phases(pods: Iterable[Document]) -> list[PodPhase]:
    return [PodPhase(name=pod["metadata"]["name"], phase=_phase(pod)) for pod in pods]


def _phase(pod: Document) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def event_fields(found: JobEvents) -> dict[str, Any]:
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


def _event(event: ClusterEvent) -> JobEvent:
    return JobEvent(
        type=event.type,
        reason=event.reason,
        message=event.message,
        count=event.count,
        first_timestamp=event.first,
        last_timestamp=event.last,
        source=EventSource(component=event.component, host=event.host),
        involved_object=EventObject(kind=event.kind, name=event.name, namespace=event.namespace),
    )


def pod_fields(pods: Sequence[Document], scheduling: Scheduling) -> dict[str, Any]:
    """The fields of `JobPodsAnswer` that tell of pods."""
    views = [_pod(pod, scheduling.machines) for pod in pods]
    return {"count": len(views), "pods": views, "scheduling": scheduling_block(scheduling)}


def _pod(pod: Document, machines: Mapping[str, Machine]) -> JobPod:
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    machine = machines.get(spec.get("nodeName") or "")
    return JobPod(
        metadata=PodMetadata(
            name=metadata["name"],
            namespace=metadata["namespace"],
            creation_timestamp=moment(metadata.get("creationTimestamp")),
            labels=metadata.get("labels") or {},
            uid=metadata["uid"],
        ),
        spec=PodSpec(
            node_name=spec.get("nodeName"), containers=_images(spec, "containers"), init_containers=_images(spec, "initContainers")
        ),
        status=PodStatus(
            phase=_phase(pod),
            host_ip=status.get("hostIP"),
            pod_ip=status.get("podIP"),
            start_time=moment(status.get("startTime")),
            reason=status.get("reason"),
            message=status.get("message"),
            container_statuses=[_container(one) for one in status.get("containerStatuses") or ()],
            init_container_statuses=[_container(one) for one in status.get("initContainerStatuses") or ()],
        ),
        node=NodeBlock(**_node(machine)) if machine else None,
    )


def _container(found: Document) -> ContainerStatus:
    """With only those fields set that its state has."""
    fields: dict[str, Any] = {
        "name": found["name"],
        "ready": bool(found.get("ready")),
        "restart_count": found.get("restartCount") or 0,
        "image": found.get("image") or "",
    }
    for state, told in (found.get("state") or {}).items():
        fields["state"] = state
        for field, name in (("started_at", "startedAt"), ("finished_at", "finishedAt")):
            if told.get(name):
                fields[field] = moment(told[name])
        for field, name in (("reason", "reason"), ("message", "message"), ("exit_code", "exitCode")):
            if told.get(name) is not None:
                fields[field] = told[name]
    return ContainerStatus(**fields)


def metric_fields(job_name: str, pods: Sequence[Document], samples: Samples) -> dict[str, Any]:
    """The fields of `JobMetricsAnswer` that tell of usage. Raises NotFoundError where there is no pod, as in the original."""
    if not pods:
        raise NotFoundError("Pods of Job", job_name, hint="it has not started, is suspended, or its pods are gone")
    views: list[PodMetrics | PodWithoutMetrics] = []
    used: list[ContainerUsage] = []
    for pod in pods:
        name = pod["metadata"]["name"]
        sample = samples.pods.get(name)
        if sample is None:
            views.append(PodWithoutMetrics(pod_name=name, error=_why(pod, samples)))
            continue
        used += sample
        views.append(PodMetrics(pod_name=name, containers=[_usage(one) for one in sample]))
    memory = sum(one.memory_bytes for one in used)
    return {
        "available": samples.unavailable is None,
        "message": samples.unavailable,
        "summary": MetricsSummary(
            total_cpu_millicores=sum(one.cpu_millicores for one in used),
            total_memory_bytes=memory,
            total_memory_mib=_mib(memory),
            pod_count=len(pods),
        ),
        "pods": views,
    }


def _why(pod: Document, samples: Samples) -> str:
    return _NO_SAMPLE if samples.unavailable else f"{_NO_SAMPLE}: there is no sample of this pod, which is {_phase(pod)}"


def _usage(usage: ContainerUsage) -> ContainerMetrics:
    return ContainerMetrics(
        name=usage.name,
        cpu_millicores=usage.cpu_millicores,
        memory_bytes=usage.memory_bytes,
        memory_mib=_mib(usage.memory_bytes),
    )


def _mib(number: int) -> float:
    return round(number / _MIB, 2)
