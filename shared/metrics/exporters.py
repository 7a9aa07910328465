"""The pods of exporters: which they are, where they stand, and on which port they tell."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.kinds import POD
from shared.clusters.listing import whole_list

NVIDIA_PORT: Final = 9400
AMD_PORT: Final = 5000
"""What dcgm-exporter and device-metrics-exporter listen on unless told otherwise."""
PORT_ANNOTATION: Final = "prometheus.io/port"
PATH: Final = "/metrics"

_PORT_NAMES: Final = ("metrics", "http-metrics", "prometheus", "exporter-port")
_RUNNING: Final = "Running"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exporter:
    """One exporter's pod. `waiting` says why it can't be asked yet; None where it can."""

    namespace: str
    pod: str
    uid: str
    node: str
    port: int
    address: str | None = None
    waiting: str | None = None


async def find_exporters(api: KubernetesApi, selectors: Sequence[str], *, untrusted: Collection[str] = ()) -> list[Exporter]:
    """The pods that any of the selectors finds and that have a node, each once. Raises UnavailableError, ApiError.

    Labels can be written by anybody who may make pods. So those of `untrusted` namespaces, where users run what they like, are left out.
    """
    found: dict[str, Exporter] = {}
    for listed in await asyncio.gather(*(_listed(api, selector) for selector in selectors)):
        found |= listed
    trusted = [one for one in found.values() if one.namespace not in untrusted]
    return sorted(trusted, key=lambda one: (one.node, one.namespace, one.pod))


async def _listed(api: KubernetesApi, selector: str) -> dict[str, Exporter]:
    pods = whole_list(api, POD.path(), {"labelSelector": selector})
    seen = [exporter_of(pod) async for pod in pods]
    return {one.uid: one for one in seen if one is not None}


def exporter_of(pod: Mapping[str, Any]) -> Exporter | None:
    """The exporter in a pod; None for one that has no node, has ended, or is being deleted, and for a pod of a job, whatever it says."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    node, phase = spec.get("nodeName"), status.get("phase") or "Pending"
    if (metadata.get("labels") or {}).get(names.MANAGED) == "true":
        return None
    if not node or phase in ("Succeeded", "Failed") or metadata.get("deletionTimestamp"):
        return None
    return Exporter(
        namespace=metadata["namespace"],
        pod=metadata["name"],
        uid=metadata["uid"],
        node=node,
        port=port_of(pod),
        address=status.get("podIP"),
        waiting=None if phase == _RUNNING else f"the pod is {phase}",
    )


def port_of(pod: Mapping[str, Any]) -> int:
    """The port that the pod's annotation says, else one that is named for metrics, else its only one, else the default of its make."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    told = str((metadata.get("annotations") or {}).get(PORT_ANNOTATION, ""))
    if told.isascii() and told.isdigit() and 1 <= int(told) <= 65535:
        return int(told)
    declared = [port for container in spec.get("containers") or () for port in container.get("ports") or ()]
    for name in _PORT_NAMES:
        for port in declared:
            if port.get("name") == name:
                return int(port["containerPort"])
    numbers = {int(port["containerPort"]) for port in declared}
    if len(numbers) == 1:
        return numbers.pop()
    return NVIDIA_PORT if _is_nvidia(metadata, spec) else AMD_PORT


def _is_nvidia(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    told = [*(metadata.get("labels") or {}).values(), *(container.get("image", "") for container in spec.get("containers") or ())]
    return any("dcgm" in text for text in told)
