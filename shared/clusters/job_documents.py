"""A Job's document by the name that somebody gives."""

from __future__ import annotations

from typing import Any

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import MissingError
from shared.clusters.kinds import JOB
from shared.clusters.label_grammar import is_dns_subdomain
from shared.errors import NotFoundError


async def read_job(api: KubernetesApi, namespace: str, name: str) -> dict[str, Any]:
    """The Job's document. Raises NotFoundError, without asking for what can't be a name, such as `..`, which would be another path."""
    if not is_dns_subdomain(name):
        raise NotFoundError("Job", name)
    try:
        return await api.request("GET", JOB.path(namespace, name))
    except MissingError:
        raise NotFoundError("Job", name) from None
