"""Kueue's objects: a flavor for each pool, one queue of the cluster over all of them, and a queue in each namespace of jobs.

A quota is what a pool's machines have when all of them run, so that a job is admitted when the autoscaler can find it a place.
"""

from __future__ import annotations

from typing import Any, Final

from infra.cdk.nodes import GPU_TAINT, pool_labels
from infra.cdk.settings import Installation, Pool, Region
from shared.clusters.names import EKS_CAPACITY

QUEUE: Final = "gpufleet"
_API: Final = "kueue.x-k8s.io/v1beta2"
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_GPU: Final = "nvidia.com/gpu"


def quota_objects(installation: Installation, region: Region) -> list[dict[str, Any]]:
    """The manifests."""
    return [
        *(_flavor(pool) for pool in region.pools),
        {
            "apiVersion": _API,
            "kind": "ClusterQueue",
            "metadata": {"name": QUEUE},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu", "memory", _GPU], "flavors": [_quota(pool) for pool in region.pools]}],
            },
        },
        *(
            {
                "apiVersion": _API,
                "kind": "LocalQueue",
                "metadata": {"name": QUEUE, "namespace": namespace},
                "spec": {"clusterQueue": QUEUE},
            }
            for namespace in installation.job_namespaces
        ),
    ]


def _flavor(pool: Pool) -> dict[str, Any]:
    labels = pool_labels(pool) | {EKS_CAPACITY: "SPOT" if pool.capacity == "spot" else "ON_DEMAND"}
    if len(pool.instance_types) == 1:
        labels[_INSTANCE_TYPE] = pool.instance_types[0]
    taints = [{"key": GPU_TAINT[0], "value": GPU_TAINT[1], "effect": "NoSchedule"}] if pool.gpus else []
    return {
        "apiVersion": _API,
        "kind": "ResourceFlavor",
        "metadata": {"name": pool.name},
        "spec": {"nodeLabels": labels, **({"nodeTaints": taints} if taints else {})},
    }


def _quota(pool: Pool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "resources": [
            {"name": "cpu", "nominalQuota": str(pool.cpus * pool.max_nodes)},
            {"name": "memory", "nominalQuota": f"{pool.memory_gib * pool.max_nodes}Gi"},
            {"name": _GPU, "nominalQuota": str(pool.gpus * pool.max_nodes)},
        ],
    }
