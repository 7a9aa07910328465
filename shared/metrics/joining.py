"""From an exporter's readings to GPUs of the cluster: on which node a device is, and which pod, job and project hold it.

What exists is what the API server lists now. An exporter asks its kubelet now and then and may name a pod that has gone; so a holder whose
pod is not there any more, has ended, or is on another node, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from shared.clusters import names
from shared.clusters.pods import ENDED_PHASES
from shared.clusters.rendering import object_name
from shared.clusters.user_labels import of_job
from shared.metrics.devices import Holder, Reading
from shared.metrics.snapshot import Gpu, User

_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_OTHER: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class PodFacts:
    """What is to be known of a pod that may hold GPUs."""

    node: str | None
    user: User


class Pods:
    """The pods that are there and have not ended, by namespace and name."""

    def __init__(self, pods: Iterable[Mapping[str, Any]], *, project_labels: Sequence[str]) -> None:
        self._project_labels = project_labels
        self._pods: dict[tuple[str, str], PodFacts] = {}
        for pod in pods:
            self.add(pod)

    def add(self, pod: Mapping[str, Any]) -> None:
        """A pod is there."""
        if (pod.get("status") or {}).get("phase") not in ENDED_PHASES:
            user = _user(pod, self._project_labels)
            self._pods[user.namespace, user.pod] = PodFacts(node=(pod.get("spec") or {}).get("nodeName"), user=user)

    def unknown(self, readings: Iterable[Reading]) -> set[str]:
        """The namespaces of holders that aren't among these pods."""
        holders = {reading.holder for reading in readings}
        return {one.namespace for one in holders if one is not None and (one.namespace, one.pod) not in self._pods}

    def of(self, reading: Reading, node: str) -> User | None:
        """Who holds a device on a node; None for nobody who is there. Of what the pod doesn't say, its exporter's labels are taken."""
        holder = reading.holder
        facts = self._pods.get((holder.namespace, holder.pod)) if holder is not None else None
        if holder is None or facts is None or facts.node not in (None, node):
            return None
        return _completed(facts.user, holder, reading.labels, self._project_labels)


def joined(readings: Iterable[Reading], *, node: str, pods: Pods) -> list[Gpu]:
    """The GPUs of the readings of an exporter, which are on the exporter's own node by whatever name it calls its host.

    The API server knows where the exporter's pod is; `hostname` may be the node's name, a short one, an address, or the pod's own name
    (for want of `NODE_NAME`), and nobody may tell of another node's devices.
    """
    found = []
    for reading in readings:
        device = reading.device if reading.device.node == node else replace(reading.device, node=node)
        found.append(Gpu(device=device, values=reading.values, user=pods.of(reading, node)))
    return found


def _user(pod: Mapping[str, Any], project_labels: Sequence[str]) -> User:
    metadata = pod["metadata"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    said = {**of_job(metadata), **labels}
    job_id, execution = labels.get(names.JOB_ID), labels.get(names.EXECUTION, "")
    number = int(execution) if execution.isascii() and execution.isdigit() else None
    return User(
        namespace=metadata["namespace"],
        pod=metadata["name"],
        job_id=job_id,
        execution=number,
        job_name=_submitted_name(labels.get(_JOB_NAME), job_id, number),
        project=next((said[label] for label in project_labels if said.get(label)), None),
    )


def _submitted_name(job: str | None, job_id: str | None, execution: int | None) -> str | None:
    """What is before the part that the fleet puts behind a job's name."""
    if job is None or job_id is None or execution is None:
        return job
    return job.removesuffix(object_name("", job_id, execution))


def _completed(user: User, holder: Holder, labels: Mapping[str, str], project_labels: Sequence[str]) -> User:
    project = user.project or _exported(labels, project_labels)
    return replace(user, container=holder.container, project=project)


def _exported(labels: Mapping[str, str], wanted: Sequence[str]) -> str | None:
    """A label of the pod as an exporter passes it on: in any case, and with `_` for whatever a Prometheus label can't have."""
    if not labels:
        return None
    plain = {_plain(name): value for name, value in labels.items()}
    return next((plain[name] for label in wanted if (name := _plain(label)) in plain), None)


def _plain(label: str) -> str:
    return _OTHER.sub("_", label.lower())
