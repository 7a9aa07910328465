"""The kinds that the simulated API server knows, and nothing about what they do.

A kind without a controller here is stored, listed and watched like any other; that is all that a client of it sees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of object: its names and where it is served. `group` is empty for the core group."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    prefix: bytes = field(init=False, repr=False, compare=False, default=b"")

    def __post_init__(self) -> None:
        prefix = f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'
        object.__setattr__(self, "prefix", prefix.encode())

    @property
    def api_version(self) -> str:
        """Group and version as an object carries them, such as `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name that messages use, such as `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """The name that messages about invalid objects use, such as `Job.batch`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


_STATUS = ("status",)
_SCALABLE = ("status", "scale")

BUILT_IN: tuple[Kind, ...] = (
    Kind(kind="Namespace", plural="namespaces", namespaced=False, subresources=("status", "finalize"), short_names=("ns",)),
    Kind(kind="Node", plural="nodes", namespaced=False, subresources=_STATUS, short_names=("no",)),
    Kind(kind="PersistentVolume", plural="persistentvolumes", namespaced=False, subresources=_STATUS, short_names=("pv",)),
    Kind(kind="Pod", plural="pods", subresources=("status", "log", "eviction"), short_names=("po",)),
    Kind(kind="Event", plural="events", short_names=("ev",)),
    Kind(kind="Service", plural="services", subresources=_STATUS, short_names=("svc",)),
    Kind(kind="ConfigMap", plural="configmaps", short_names=("cm",)),
    Kind(kind="Secret", plural="secrets"),
    Kind(kind="ServiceAccount", plural="serviceaccounts", subresources=("token",), short_names=("sa",)),
    Kind(kind="ResourceQuota", plural="resourcequotas", subresources=_STATUS, short_names=("quota",)),
    Kind(kind="LimitRange", plural="limitranges", short_names=("limits",)),
    Kind(kind="PersistentVolumeClaim", plural="persistentvolumeclaims", subresources=_STATUS, short_names=("pvc",)),
    Kind(kind="Job", plural="jobs", group="batch", subresources=_STATUS),
    Kind(kind="CronJob", plural="cronjobs", group="batch", subresources=_STATUS, short_names=("cj",)),
    Kind(kind="Deployment", plural="deployments", group="apps", subresources=_SCALABLE, short_names=("deploy",)),
    Kind(kind="StatefulSet", plural="statefulsets", group="apps", subresources=_SCALABLE, short_names=("sts",)),
    Kind(kind="DaemonSet", plural="daemonsets", group="apps", subresources=_STATUS, short_names=("ds",)),
    Kind(kind="ReplicaSet", plural="replicasets", group="apps", subresources=_SCALABLE, short_names=("rs",)),
    Kind(kind="Ingress", plural="ingresses", group="networking.k8s.io", subresources=_STATUS, short_names=("ing",)),
    Kind(kind="NetworkPolicy", plural="networkpolicies", group="networking.k8s.io", short_names=("netpol",)),
    Kind(kind="Role", plural="roles", group="rbac.authorization.k8s.io"),
    Kind(kind="RoleBinding", plural="rolebindings", group="rbac.authorization.k8s.io"),
    Kind(kind="ClusterRole", plural="clusterroles", group="rbac.authorization.k8s.io", namespaced=False),
    Kind(kind="ClusterRoleBinding", plural="clusterrolebindings", group="rbac.authorization.k8s.io", namespaced=False),
    Kind(kind="PodDisruptionBudget", plural="poddisruptionbudgets", group="policy", subresources=_STATUS, short_names=("pdb",)),
)

TRAIN_JOB = Kind(kind="TrainJob", plural="trainjobs", group="trainer.kubeflow.org", version="v1alpha1", subresources=_STATUS)
"""A custom kind of Kubeflow's trainer, for `extra_kinds`. Nothing runs it here: it is stored as on a cluster whose trainer sleeps."""


class Catalogue:
    """Finds a kind by where it is served, or by what an object says of itself."""

    def __init__(self, extra: Iterable[Kind] = ()) -> None:
        self.all = (*BUILT_IN, *extra)
        self._by_place = {(kind.group, kind.version, kind.plural): kind for kind in self.all}
        self._by_name = {(kind.api_version, kind.kind): kind for kind in self.all}

    def served_at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind a path, or None."""
        return self._by_place.get((group, version, plural))

    def named(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object or an owner reference names, or None."""
        return self._by_name.get((api_version, kind))

    def core(self, kind: str) -> Kind:
        """A built-in kind by its bare name, which is unique among them."""
        return next(found for found in BUILT_IN if found.kind == kind)

    def groups(self) -> dict[str, list[str]]:
        """The versions of every group but the core one, in the order in which they were declared."""
        result: dict[str, list[str]] = {}
        for kind in self.all:
            versions = result.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        result.pop("", None)
        return result
