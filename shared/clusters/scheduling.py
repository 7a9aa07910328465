"""Where the pods of a Job are: on which nodes, what machines those are, and why others wait.

The nodes are read beside the pods, so a cluster that doesn't let us read them, or has lost one, costs an answer no more than its details.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.errors import ApiError, MissingError
from shared.clusters.job_pods import age, pods_of
from shared.clusters.kinds import NODE
from shared.clusters.listing import whole_list
from shared.clusters.nodes import capacity_type
from shared.clusters.observed import Document
from shared.errors import FleetError, UnavailableError

SINGLE_READS: Final = 8
"""Up to so many nodes are read one by one, at the same time; for more, the cluster's nodes are listed. A node weighs some 10 KB."""
LOOKUP_SECONDS: Final = 5.0
"""For all nodes together; what isn't known by then is left out."""
FAULTS_TOLD: Final = 3
TOLD_LABELS: Final = (
    names.INSTANCE_TYPE,
    names.KARPENTER_CAPACITY,
    names.EKS_CAPACITY,
    names.ZONE,
    "topology.kubernetes.io/region",
    "kubernetes.io/arch",
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "nvidia.com/gpu.product",
)
"""The labels of a node that say what kind of machine it is and where it stands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A node, as far as it is known: of one that can't be read, only its name."""

    name: str
    instance_type: str | None = None
    capacity_type: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unscheduled:
    """A pod that has no node. `reason` is the scheduler's, None where it hasn't looked at the pod yet."""

    pod: str
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduling:
    """Machines by node name, in the order in which pods came to them, the pods on each, and the pods on none.

    `error` says why machines are not known, or not all of them.
    """

    machines: Mapping[str, Machine] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    unscheduled: Sequence[Unscheduled] = ()
    error: str | None = None


async def scheduling_of_job(api: KubernetesApi, job: Document) -> Scheduling:
    """Where the pods of a Job are; `error` says why where they can't be read."""
    try:
        pods = await pods_of(api, job)
    except (ApiError, UnavailableError) as error:
        return Scheduling(error=str(error))
    return await scheduling_of(api, pods)


async def scheduling_of(api: KubernetesApi, pods: Iterable[Document]) -> Scheduling:
    """Where pods are. A failure to read nodes is told, not raised. Requests: one for each node, of many one for each 500."""
    placed: dict[str, list[Document]] = {}
    unscheduled: list[Unscheduled] = []
    for pod in sorted(pods, key=age):
        node = (pod.get("spec") or {}).get("nodeName")
        if node:
            placed.setdefault(node, []).append(pod)
        else:
            unscheduled.append(Unscheduled(pod=pod["metadata"]["name"], reason=_reason(pod)))
    lookup = _Lookup(api, list(placed))
    await lookup.run()
    machines = {name: lookup.found.get(name) or Machine(name=name) for name in placed}
    return Scheduling(machines=machines, pods=placed, unscheduled=unscheduled, error=lookup.error)


def _reason(pod: Document) -> str | None:
    """The scheduler's own words: `0/3 nodes are available: …`."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return str(one.get("message") or one.get("reason") or "no node fits")
    return None


class _Lookup:
    """Reads some nodes by name; keeps what it found when others fail."""

    def __init__(self, api: KubernetesApi, wanted: Sequence[str]) -> None:
        self._api = api
        self._wanted = wanted
        self._failures: dict[str, str] = {}
        self.found: dict[str, Machine] = {}

    @property
    def error(self) -> str | None:
        """What went wrong, in a bounded number of words; None where nothing did."""
        faults = list(dict.fromkeys(self._failures.values()))
        more = [f"{len(faults) - FAULTS_TOLD} more"] if len(faults) > FAULTS_TOLD else []
        return "; ".join([*faults[:FAULTS_TOLD], *more]) or None

    async def run(self) -> None:
        """Read them all."""
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                if len(self._wanted) <= SINGLE_READS:
                    await asyncio.gather(*map(self._read, self._wanted))
                else:
                    await self._list()
        except TimeoutError:
            self._failures["*"] = f"nodes were not read within {LOOKUP_SECONDS:g} s"

    async def _read(self, name: str) -> None:
        try:
            self.found[name] = _machine(await self._api.request("GET", NODE.path(name=name)))
        except MissingError:
            self._gone(name)
        except (ApiError, UnavailableError) as error:
            self._failures[name] = _words(error)

    async def _list(self) -> None:
        missing = set(self._wanted)
        try:
            async with aclosing(whole_list(self._api, NODE.path())) as nodes:
                async for node in nodes:
                    if (name := node["metadata"]["name"]) in missing:
                        self.found[name] = _machine(node)
                        missing.discard(name)
                        if not missing:
                            return
        except (ApiError, UnavailableError) as error:
            self._failures["*"] = _words(error)
            return
        for name in sorted(missing):
            self._gone(name)

    def _gone(self, name: str) -> None:
        self._failures[name] = f"node {name} is no longer in the cluster"


def _words(error: FleetError) -> str:
    """The message without the request, which would make one fault of several nodes look like several."""
    return str(error).partition(": ")[2] or str(error)


def _machine(node: dict[str, Any]) -> Machine:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return Machine(
        name=node["metadata"]["name"],
        instance_type=labels.get(names.INSTANCE_TYPE),
        capacity_type=capacity_type(labels),
        labels={key: labels[key] for key in TOLD_LABELS if labels.get(key)},
    )
