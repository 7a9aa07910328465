"""The kinds of objects that the fleet writes or reads, and where an API server serves them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from shared.clusters.errors import MissingError
from shared.jobs.ports import RefusedError

_SEGMENT: Final = re.compile(r"(?!\.{1,2}\Z)[^/%\x00-\x20\x7f\ud800-\udfff]{1,253}")
"""What can be a name in a path: apimachinery, `IsValidPathSegmentName`. A client would take `..` for a way out of the collection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind: its names, and whether its objects stand in namespaces."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The path of an object, of a namespace's collection, or of the whole cluster's.

        Raises MissingError for what can be the name of nothing.
        """
        root = "/apis/" if "/" in self.api_version else "/api/"
        parts = [self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment(name))
        return root + "/".join(parts)


def _segment(name: str) -> str:
    if _SEGMENT.fullmatch(name) is None:
        raise MissingError(f"nothing can have the name {name[:80]!r}", code=404, reason="NotFound")
    return quote(name, safe="")


JOB: Final = Kind(api_version="batch/v1", kind="Job", plural="jobs")
POD: Final = Kind(api_version="v1", kind="Pod", plural="pods")
EVENT: Final = Kind(api_version="v1", kind="Event", plural="events")
POD_METRICS: Final = Kind(api_version="metrics.k8s.io/v1beta1", kind="PodMetrics", plural="pods")
NODE: Final = Kind(api_version="v1", kind="Node", plural="nodes", namespaced=False)
_SERVICE: Final = Kind(api_version="v1", kind="Service", plural="services")
_CONFIG_MAP: Final = Kind(api_version="v1", kind="ConfigMap", plural="configmaps")

SUPPORTING: Final = {
    (kind.api_version, kind.kind): kind
    for kind in (
        _SERVICE,
        _CONFIG_MAP,
        Kind(api_version="v1", kind="Secret", plural="secrets"),
        Kind(api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims"),
        Kind(api_version="v1", kind="ServiceAccount", plural="serviceaccounts"),
        Kind(api_version="networking.k8s.io/v1", kind="NetworkPolicy", plural="networkpolicies"),
    )
}
"""What may stand beside a Job. Policy admits fewer; this table only says how they are reached."""

APPLIED: Final = {
    (kind.api_version, kind.kind): kind
    for kind in (
        JOB,
        Kind(api_version="batch/v1", kind="CronJob", plural="cronjobs"),
        Kind(api_version="apps/v1", kind="Deployment", plural="deployments"),
        Kind(api_version="apps/v1", kind="StatefulSet", plural="statefulsets"),
        Kind(api_version="apps/v1", kind="DaemonSet", plural="daemonsets"),
        _SERVICE,
        _CONFIG_MAP,
        POD,
        Kind(api_version="trainer.kubeflow.org/v1alpha1", kind="TrainJob", plural="trainjobs"),
    )
}
"""What may be applied directly: GCO's nine kinds, each in its one version. Policy may admit fewer."""


def supporting_kind(document: Mapping[str, Any]) -> Kind:
    """The kind of a supporting object. Raises RefusedError for one that the fleet doesn't know how to apply."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    found = SUPPORTING.get((str(api_version), str(kind)))
    if found is None:
        raise RefusedError(f"{kind} ({api_version}) is no kind that can stand beside a job")
    return found
