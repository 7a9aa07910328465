"""The nodes of a cluster and the GPUs on them, for those who place jobs and those who look at the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from shared.clusters import names
from shared.clusters.observed import condition
from shared.clusters.quantities import QuantityError, parse_quantity
from shared.costs.model import NodeUsage

GPU_RESOURCES: Final = ("nvidia.com/gpu", "amd.com/gpu")
"""The resource names of the device plugins of NVIDIA and AMD."""
SPOT: Final = "spot"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeView:
    """What is kept of a node. `schedulable`: it is ready, and not cordoned. `usage` is None where the feed wasn't asked for it."""

    name: str
    gpus_allocatable: int
    schedulable: bool
    instance_type: str | None = None
    spot: bool = False
    usage: NodeUsage | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    """A node and what pods of the fleet hold of it."""

    name: str
    instance_type: str | None
    spot: bool
    schedulable: bool
    gpus_allocatable: int
    gpus_used: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterReport:
    """The GPUs of a region's cluster at a time. A node that isn't schedulable counts for what is used, not for what is allocatable."""

    region: str
    nodes: tuple[NodeReport, ...]
    gpus_allocatable: int
    gpus_used: int
    reported_at: datetime


class Placed(Protocol):
    """A pod, as far as it counts here."""

    @property
    def node(self) -> str | None:
        """The node on which it is."""
        ...

    @property
    def gpus(self) -> int:
        """The GPUs that it asks for."""
        ...

    @property
    def holds_gpus(self) -> bool:
        """Whether it has a place on a node and has not ended."""
        ...


def node_view(node: Mapping[str, Any]) -> NodeView:
    """What is to be kept of a node."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    return NodeView(
        name=metadata["name"],
        gpus_allocatable=gpus_of(status.get("allocatable")),
        schedulable=condition(status, "Ready") is not None and not spec.get("unschedulable") and not metadata.get("deletionTimestamp"),
        instance_type=labels.get(names.INSTANCE_TYPE),
        spot=capacity_type(labels) == SPOT,
    )


def capacity_type(labels: Mapping[str, str]) -> str | None:
    """How a node's machine is paid for, in Karpenter's words (`spot`, `on-demand`, `reserved`); None where no label tells.

    A managed node group of EKS has its own label and spelling (`SPOT`, `ON_DEMAND`, `CAPACITY_BLOCK`).
    """
    told = labels.get(names.KARPENTER_CAPACITY) or labels.get(names.EKS_CAPACITY)
    return told.lower().replace("_", "-") if told else None


def gpus_of(amounts: Mapping[str, Any] | None) -> int:
    """The GPUs of any make in a set of amounts by resource. A cluster's own amounts are whole; what is none counts as nothing."""
    total = 0
    for resource in GPU_RESOURCES:
        if amounts and resource in amounts:
            try:
                total += int(parse_quantity(amounts[resource]))
            except QuantityError:
                continue
    return total


def report(region: str, nodes: Iterable[NodeView], pods: Iterable[Placed], *, at: datetime) -> ClusterReport:
    """The state of a region's cluster from its nodes and the fleet's pods."""
    used: Counter[str] = Counter()
    for pod in pods:
        if pod.node is not None and pod.holds_gpus:
            used[pod.node] += pod.gpus
    reports = tuple(
        NodeReport(
            name=node.name,
            instance_type=node.instance_type,
            spot=node.spot,
            schedulable=node.schedulable,
            gpus_allocatable=node.gpus_allocatable,
            gpus_used=used[node.name],
        )
        for node in sorted(nodes, key=lambda node: node.name)
    )
    return ClusterReport(
        region=region,
        nodes=reports,
        gpus_allocatable=sum(node.gpus_allocatable for node in reports if node.schedulable),
        gpus_used=used.total(),
        reported_at=at,
    )
