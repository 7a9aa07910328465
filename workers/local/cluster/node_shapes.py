"""Machines: what a node offers and how it is labelled, as EKS with Karpenter labels and taints it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workers.local.cluster.objects import Object

# vCPU, memory, GPUs and the GPU's resource of some EC2 types: https://aws.amazon.com/ec2/instance-types/
# What begins with `onprem-` is none: EC2 has no machine with these GPUs, other clusters have.
_TYPES: dict[str, tuple[int, str, int, str]] = {
    "g4ad.xlarge": (4, "16Gi", 1, "amd.com/gpu"),
    "g4ad.16xlarge": (64, "256Gi", 4, "amd.com/gpu"),
    "g4dn.xlarge": (4, "16Gi", 1, "nvidia.com/gpu"),
    "g4dn.12xlarge": (48, "192Gi", 4, "nvidia.com/gpu"),
    "g5.xlarge": (4, "16Gi", 1, "nvidia.com/gpu"),
    "g5.12xlarge": (48, "192Gi", 4, "nvidia.com/gpu"),
    "g5.48xlarge": (192, "768Gi", 8, "nvidia.com/gpu"),
    "g6.xlarge": (4, "16Gi", 1, "nvidia.com/gpu"),
    "g6e.12xlarge": (48, "384Gi", 4, "nvidia.com/gpu"),
    "onprem-mi300x.8gpu": (192, "2304Gi", 8, "amd.com/gpu"),
    "p4d.24xlarge": (96, "1152Gi", 8, "nvidia.com/gpu"),
    "p5.48xlarge": (192, "2048Gi", 8, "nvidia.com/gpu"),
    "m5.large": (2, "8Gi", 0, ""),
    "m5.4xlarge": (16, "64Gi", 0, ""),
    "m7i.48xlarge": (192, "768Gi", 0, ""),
    "c7i.8xlarge": (32, "64Gi", 0, ""),
}


MOST_NODES = 1000
"""Of one cluster. The simulation looks at every node where it places a pod."""
CAPACITY_TYPES = ("on-demand", "spot")
_PART = re.compile(r"(?:(?P<count>[0-9]{1,9})x)?(?P<type>[a-z][a-z0-9-]*\.[a-z0-9-]+)(?::(?P<capacity>.*))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeShape:
    """One machine of a cluster; quantities in the Kubernetes grammar."""

    name: str
    instance_type: str = "m5.4xlarge"
    cpu: str = "16"
    memory: str = "64Gi"
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    pods: int = 110
    capacity_type: str = "on-demand"
    zone: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] | None = None
    """None: GPU nodes are tainted with the GPU's resource, as EKS users do; others aren't."""

    @classmethod
    def of_type(cls, instance_type: str, *, name: str, capacity_type: str = "on-demand", zone: str | None = None) -> NodeShape:
        """A node of an EC2 type. Raises ValueError for a type that isn't in the table."""
        if instance_type not in _TYPES:
            raise ValueError(f"unknown instance type {instance_type}; known are {', '.join(sorted(_TYPES))}")
        cpu, memory, gpus, resource = _TYPES[instance_type]
        return cls(
            name=name,
            instance_type=instance_type,
            cpu=str(cpu),
            memory=memory,
            gpus=gpus,
            gpu_resource=resource or "nvidia.com/gpu",
            capacity_type=capacity_type,
            zone=zone,
        )


def parse_shapes(text: str) -> list[NodeShape]:
    """Nodes from text such as `4xg5.12xlarge:spot,2xm5.4xlarge`: count, EC2 type, capacity type. Raises ValueError that names the part."""
    shapes: list[NodeShape] = []
    for part in (part.strip() for part in text.split(",")):
        found = _PART.fullmatch(part)
        if found is None:
            told = part or ("the part between two commas or at the end" if "," in text else "nothing")
            raise ValueError(f"{told} is not COUNTxTYPE or COUNTxTYPE:CAPACITY, such as 4xg5.12xlarge:spot")
        count, capacity = int(found["count"] or 1), found["capacity"]
        if capacity is not None and capacity not in CAPACITY_TYPES:
            raise ValueError(f"unknown capacity {capacity or '(empty)'} in {part}; known are {', '.join(CAPACITY_TYPES)}")
        if not 1 <= count <= MOST_NODES - len(shapes):
            raise ValueError(f"{part} makes no cluster of 1 to {MOST_NODES} machines")
        for _number in range(count):
            name = f"node-{len(shapes)}"
            shapes.append(NodeShape.of_type(found["type"], name=name, capacity_type=capacity or CAPACITY_TYPES[0]))
    return shapes


def node_spec(shape: NodeShape) -> Object:
    """The spec of the node's object."""
    if shape.taints is not None:
        taints = [dict(taint) for taint in shape.taints]
    else:
        taints = [{"key": shape.gpu_resource, "value": "true", "effect": "NoSchedule"}] if shape.gpus else []
    return {"providerID": f"aws:///{shape.zone or ''}/{shape.name}", **({"taints": taints} if taints else {})}


def node_labels(shape: NodeShape, *, region: str, zone: str) -> dict[str, str]:
    """The labels of the node's object."""
    return {
        "beta.kubernetes.io/instance-type": shape.instance_type,
        "eks.amazonaws.com/capacityType": shape.capacity_type.upper().replace("-", "_"),
        "karpenter.sh/capacity-type": shape.capacity_type,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": shape.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": shape.instance_type,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
        **({f"{shape.gpu_resource}.present": "true"} if shape.gpus else {}),
        **shape.labels,
    }


def node_resources(shape: NodeShape) -> dict[str, str]:
    """Capacity, which is all allocatable here."""
    gpus = {shape.gpu_resource: str(shape.gpus)} if shape.gpus else {}
    return {"cpu": shape.cpu, "memory": shape.memory, "ephemeral-storage": "500Gi", "pods": str(shape.pods), **gpus}
