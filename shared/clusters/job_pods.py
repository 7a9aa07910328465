"""The pods of one Job: those that the Job controls, and none else that happens to carry its name.

A Job that was deleted and made again under its name may stand beside pods of the earlier one, so what counts is the UID of the owner
reference. The Job's own selector only narrows what is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.clusters.api import KubernetesApi
from shared.clusters.kinds import POD
from shared.clusters.listing import whole_list
from shared.clusters.observed import Document

_OPERATORS: Final = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}", "DoesNotExist": "!{key}"}


async def pods_of(api: KubernetesApi, job: Document) -> list[dict[str, Any]]:
    """The Job's pods, those that have ended among them, the oldest first. One request for each 500. Raises UnavailableError, ApiError."""
    metadata = job["metadata"]
    uid = metadata["uid"]
    listed = whole_list(api, POD.path(metadata["namespace"]), {"labelSelector": pod_selector(job)})
    pods = [pod async for pod in listed if controller_uid(pod) == uid]
    return sorted(pods, key=age)


def pod_selector(job: Document) -> str:
    """The label selector by which the Job knows its pods, as text for a query.

    The API server makes it of the Job's UID, unless the Job says `manualSelector`.
    """
    selector: Document = (job.get("spec") or {}).get("selector") or {}
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [
        _OPERATORS[one["operator"]].format(key=one["key"], values=",".join(one.get("values") or ()))
        for one in selector.get("matchExpressions") or ()
    ]
    return ",".join(parts) or f"batch.kubernetes.io/controller-uid={job['metadata']['uid']}"


def controller_uid(pod: Document) -> str | None:
    """The UID of what controls a pod; None where nothing does."""
    references: list[Mapping[str, Any]] = pod["metadata"].get("ownerReferences") or []
    return next((str(one["uid"]) for one in references if one.get("controller")), None)


def age(found: Document) -> tuple[str, str]:
    """A key that sorts objects from the oldest to the newest; those of one second by name."""
    metadata = found["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata["name"])
