"""From an admitted manifest to the objects of one execution, as they are created on a cluster.

Rendering is a pure function of the specification and the identity of the execution, so that every worker that tries, tries to create the
same object under the same name, and a second create is a conflict with something known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from shared.clusters import names
from shared.clusters.defaults import complete_pod, ignore_disruption, undisturbed
from shared.clusters.placement import SpotRequest, on_spot
from shared.clusters.trees import canonical
from shared.clusters.user_labels import carried

MAX_JOB_NAME: Final = 57
"""Characters of a Job's name. A pod of an Indexed Job has the host name `<job>-<index>`, a DNS label of at most 63
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode), and an index has at most five digits."""
DEFAULT_TTL_SECONDS: Final = 86_400
"""How long a Job that ended stays on the cluster, if its user doesn't say."""
MIN_TTL_SECONDS: Final = 3_600
"""The least that a user can ask for: the end must still be there to be seen by an observer that was away for a while."""

_ID_PART: Final = 12
_SET_BY_THE_CLUSTER: Final = ("creationTimestamp", "generateName", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderIdentity:
    """Which execution of which job the objects are for."""

    job_id: str
    execution: int
    """From 1."""
    name: str
    """The base name: what the user called it."""
    namespace: str
    spec_hash: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the submission, on top of the manifest's own."""
    spot: SpotRequest | None = None
    submitted_by: str | None = None
    """Whose costs the pods are; they carry it, as they do the name, so that whoever watches them needs nobody else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """The objects of one execution. The supporting ones get their owner once the Job has a UID: see `own`."""

    job: dict[str, Any]
    supporting: list[dict[str, Any]]


def object_name(base: str, job_id: str, execution: int) -> str:
    """Return the name of an execution's Job: `<base>-<last 12 hex digits of the id>-<execution>`, at most 57 characters."""
    tail = f"-{job_id.replace('-', '')[-_ID_PART:]}-{execution}"
    return base[: MAX_JOB_NAME - len(tail)].rstrip("-.") + tail


def specification_hash(manifest: dict[str, Any], supporting: Sequence[dict[str, Any]], options: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a specification, in hex: what tells whether an object of the expected name is the expected thing."""
    text = canonical({"manifest": manifest, "supporting": list(supporting), "options": dict(options)})
    return hashlib.sha256(text).hexdigest()


def render(manifest: dict[str, Any], supporting: Sequence[dict[str, Any]] = (), *, identity: RenderIdentity) -> Rendered:
    """Return the objects of an execution; what was admitted isn't changed.

    The Job is suspended and marked as not released: nothing runs before the commit. A Kueue queue that the user asked for moves from the
    label into an annotation, since Kueue would let the Job run before that; the release puts it back.
    """
    job = _fresh(manifest, identity)
    metadata, spec = job["metadata"], job["spec"]
    metadata["name"] = object_name(identity.name, identity.job_id, identity.execution)
    queue = identity.labels.get(names.KUEUE_QUEUE) or metadata["labels"].get(names.KUEUE_QUEUE)
    metadata["labels"].pop(names.KUEUE_QUEUE, None)
    metadata["annotations"].update({names.SPEC_HASH: identity.spec_hash, names.RELEASED: "no", names.NAME: identity.name})
    if queue:
        metadata["annotations"][names.QUEUE] = queue
    spec["suspend"] = True
    spec["ttlSecondsAfterFinished"] = _ttl(spec.get("ttlSecondsAfterFinished"))
    _mark(spec["template"], identity)
    of_pods = spec["template"]["metadata"] = undisturbed(spec["template"]["metadata"])
    of_pods["annotations"][names.NAME] = identity.name
    if identity.submitted_by is not None:
        of_pods["annotations"][names.SUBMITTED_BY] = identity.submitted_by
    if (labels := carried(metadata["labels"], of_pods["labels"])) is not None:
        of_pods["annotations"][names.JOB_LABELS] = labels
    _complete_pod(spec["template"]["spec"], metadata["name"], identity)
    ignore_disruption(spec)
    return Rendered(job=job, supporting=[_beside(item, identity) for item in supporting])


def own(supporting: Sequence[dict[str, Any]], job_name: str, job_uid: str) -> list[dict[str, Any]]:
    """Return the supporting objects owned by a Job, so that the cluster deletes them with it.

    `controller` is false: the Job doesn't steer them. `blockOwnerDeletion` makes a foreground deletion wait for them.
    """
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job_name,
        "uid": job_uid,
        "controller": False,
        "blockOwnerDeletion": True,
    }
    owned = deepcopy(list(supporting))
    for item in owned:
        item["metadata"]["ownerReferences"] = [dict(owner)]
    return owned


def _fresh(manifest: dict[str, Any], identity: RenderIdentity) -> dict[str, Any]:
    """Return a copy with nothing of a cluster in it, in the namespace, with the marks of the fleet."""
    found = deepcopy(manifest)
    found.pop("status", None)
    metadata = found.setdefault("metadata", {})
    for key in _SET_BY_THE_CLUSTER:
        metadata.pop(key, None)
    metadata["namespace"] = identity.namespace
    _mark(found, identity)
    return found


def _mark(found: dict[str, Any], identity: RenderIdentity) -> None:
    """Write the fleet's labels and annotations, over the submission's labels, over the manifest's own."""
    metadata = found.get("metadata") or {}
    ours = {names.JOB_ID: identity.job_id, names.EXECUTION: str(identity.execution)}
    submitted = {key: value for key, value in identity.labels.items() if key != names.KUEUE_QUEUE}
    metadata["labels"] = {**(metadata.get("labels") or {}), **submitted, names.MANAGED: "true", **ours}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **ours}
    found["metadata"] = metadata


def _complete_pod(pod: dict[str, Any], job_name: str, identity: RenderIdentity) -> None:
    complete_pod(pod)
    if identity.spot is not None:
        pod["affinity"] = on_spot(pod, identity.spot)
    # First, so that `$(GPUFLEET_JOB_NAME)` in the user's own values finds them.
    env = [
        {"name": names.ENV_JOB_ID, "value": identity.job_id},
        {"name": names.ENV_JOB_NAME, "value": job_name},
        {"name": names.ENV_EXECUTION, "value": str(identity.execution)},
    ]
    for container in [*(pod.get("initContainers") or []), *pod["containers"]]:
        container["env"] = [*deepcopy(env), *(container.get("env") or [])]


def _ttl(asked: int | None) -> int:
    return DEFAULT_TTL_SECONDS if asked is None else max(asked, MIN_TTL_SECONDS)


def _beside(item: dict[str, Any], identity: RenderIdentity) -> dict[str, Any]:
    found = _fresh(item, identity)
    if found["kind"] == "Service" and not (found.get("spec") or {}).get("selector"):
        # A Service without a selector leads nowhere; the user can't know the labels of this execution's pods, so it means these.
        found["spec"] = {
            **(found.get("spec") or {}),
            "selector": {names.JOB_ID: identity.job_id, names.EXECUTION: str(identity.execution)},
        }
    return found
