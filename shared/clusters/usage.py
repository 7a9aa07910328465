"""What nodes and pods have and ask for, and from when to when: for those who reckon what things cost.

All of it stands in the objects themselves, so that whoever reads them later, or again, reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from shared.clusters import names
from shared.clusters.nodes import SPOT, capacity_type, gpus_of
from shared.clusters.observed import Document, moment
from shared.clusters.pods import ENDED_PHASES, gpus_of_pod
from shared.clusters.quantities import QuantityError, parse_quantity
from shared.clusters.user_labels import labels_of
from shared.costs.model import CapacityType, NodeUsage, PodUsage

_BLOCK: Final = "capacity-block"


def node_usage(node: Document, *, region: str, cluster: str) -> NodeUsage:
    """What a node has; from its creation, which is when it joined the cluster, some seconds after its machine began to cost."""
    metadata, status = node["metadata"], node.get("status") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    has: Document = status.get("capacity") or status.get("allocatable") or {}
    start = moment(metadata["creationTimestamp"])
    assert start is not None
    return NodeUsage(
        uid=metadata["uid"],
        name=metadata["name"],
        region=region,
        cluster=cluster,
        start=start,
        zone=labels.get(names.ZONE),
        instance_type=labels.get(names.INSTANCE_TYPE),
        capacity_type=_paid_as(labels),
        cores=_amount(has, "cpu"),
        memory_bytes=int(_amount(has, "memory")),
        gpus=gpus_of(has),
    )


def pod_usage(pod: Document, *, region: str, cluster: str) -> PodUsage | None:
    """What a pod asks for; None for one that has no place yet. It has an end once all of its containers have ended.

    Its time begins when the kubelet has taken it (`startTime`), since from then on nobody else can have what it asked for.
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    start = moment(status.get("startTime"))
    if start is None or not spec.get("nodeName"):
        return None
    labels: Mapping[str, str] = metadata.get("labels") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    ours = labels.get(names.MANAGED) == "true" and labels.get(names.JOB_ID)
    execution = labels.get(names.EXECUTION, "")
    return PodUsage(
        uid=metadata["uid"],
        node=spec["nodeName"],
        region=region,
        cluster=cluster,
        namespace=metadata["namespace"],
        start=start,
        end=_ended_at(status, start) if status.get("phase") in ENDED_PHASES else None,
        job_id=labels[names.JOB_ID] if ours else None,
        job_name=annotations.get(names.NAME) if ours else None,
        execution=int(execution) if ours and execution.isdecimal() else None,
        submitted_by=annotations.get(names.SUBMITTED_BY) if ours else None,
        labels=labels_of(metadata) if ours else {},
        cores=_asked(spec, "cpu"),
        memory_bytes=int(_asked(spec, "memory")),
        gpus=gpus_of_pod(spec),
    )


def _paid_as(labels: Mapping[str, str]) -> CapacityType:
    told = capacity_type(labels)
    if _BLOCK in (told, labels.get(names.KARPENTER_RESERVATION)):
        return CapacityType.CAPACITY_BLOCK
    return CapacityType.SPOT if told == SPOT else CapacityType.ON_DEMAND


def _ended_at(status: Document, start: datetime) -> datetime:
    """When the last container ended; where none says so (it was evicted, or the kubelet refused it), when the pod's state last changed."""
    containers = [one for part in ("initContainerStatuses", "containerStatuses") for one in status.get(part) or ()]
    ended = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in containers]
    told = [at for at in map(moment, ended) if at] or [
        at for one in status.get("conditions") or () if (at := moment(one.get("lastTransitionTime")))
    ]
    return max(told, default=start)


def _asked(spec: Document, resource: str) -> Decimal:
    """What the scheduler keeps for a pod.

    Containers and sidecars together, or an init container with the sidecars before it, if that is more; and the runtime's overhead.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    overhead = _amount(spec.get("overhead"), resource)
    for_all: Document = (spec.get("resources") or {}).get("requests") or {}
    if resource in for_all:
        return _amount(for_all, resource) + overhead
    sidecars = most = Decimal(0)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars += _of_container(container, resource)
        else:
            most = max(most, sidecars + _of_container(container, resource))
    return max(most, sidecars + _sum(_of_container(one, resource) for one in spec.get("containers") or ())) + overhead


def _of_container(container: Document, resource: str) -> Decimal:
    """A limit is a request, too, where there is none."""
    resources: Document = container.get("resources") or {}
    requests: Document = resources.get("requests") or {}
    return _amount(requests if resource in requests else resources.get("limits"), resource)


def _amount(amounts: Mapping[str, Any] | None, resource: str) -> Decimal:
    """An amount of a resource; what the cluster itself wouldn't understand is none."""
    if not amounts or resource not in amounts:
        return Decimal(0)
    try:
        return parse_quantity(amounts[resource])
    except QuantityError:
        return Decimal(0)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))
