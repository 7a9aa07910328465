"""Which namespaces a cluster has. A list of objects doesn't tell: in a namespace that isn't there it is empty."""

from __future__ import annotations

from typing import Final

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import MissingError
from shared.clusters.kinds import Kind

NAMESPACE: Final = Kind(api_version="v1", kind="Namespace", plural="namespaces", namespaced=False)


async def has_namespace(api: KubernetesApi, name: str) -> bool:
    """Whether the cluster has a namespace. Raises UnavailableError, and RejectedError where the fleet may not read namespaces."""
    try:
        await api.request("GET", NAMESPACE.path(name=name))
    except MissingError:
        return False
    return True
