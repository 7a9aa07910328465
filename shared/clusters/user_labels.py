"""The labels that users tell their jobs apart by, of a Job and its pods together: what costs and GPUs are told by.

Pods say everything that is to be known of what they use. A label that stands on the Job alone is carried to them in an annotation: as a
label of theirs it would be matched by selectors of Services, disruption budgets and network policies, which its user didn't ask for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from shared.clusters import names
from shared.clusters.label_grammar import is_label_value, is_qualified_name

MOST: Final = 32
"""Labels of a pod and its Job together; the pod's before the Job's, each by name. One is up to 317 characters of key and 63 of value."""

_CLUSTERS_DOMAINS: Final = ("kubernetes.io", "k8s.io", "x-k8s.io", "eks.amazonaws.com")
"""Whose labels clusters and their controllers write: a Job's UID and name, the zone of a pod's node (since Kubernetes 1.35), Kueue's.
https://kubernetes.io/docs/reference/labels-annotations-taints/"""
_USERS_PREFIX: Final = "app.kubernetes.io"
"""https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/"""
_WITHOUT_PREFIX: Final = ("controller-revision-hash", "controller-uid", "job-name", "pod-template-hash")


def carried(job: Mapping[str, str], pod: Mapping[str, str]) -> str | None:
    """The annotation of a pod for the labels that its Job has and it hasn't; None for none. At most 13 KiB."""
    found = _users(job, but=pod)
    kept = dict(list(found.items())[:MOST])
    return json.dumps(kept, separators=(",", ":")) if kept else None


def labels_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """The users' labels of a pod, by its metadata, with those of its Job that it carries."""
    own: Mapping[str, str] = pod.get("labels") or {}
    found = {**_users(own), **_users(of_job(pod), but=own)}
    return dict(list(found.items())[:MOST])


def of_job(pod: Mapping[str, Any]) -> dict[str, str]:
    """The labels of its Job that a pod carries, by its metadata; what is none (somebody has changed it on the cluster) is left out."""
    try:
        found = json.loads((pod.get("annotations") or {}).get(names.JOB_LABELS) or "{}")
    except ValueError:
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {key: value for key, value in pairs if is_qualified_name(key) and isinstance(value, str) and is_label_value(value)}


def _users(labels: Mapping[str, str], *, but: Mapping[str, str] | None = None) -> dict[str, str]:
    return {key: labels[key] for key in sorted(labels) if _is_users(key) and key not in (but or {})}


def _is_users(key: str) -> bool:
    """Whether a label is neither the fleet's own nor one that clusters write, which mean nothing to those who pay."""
    prefix, slash, _ = key.rpartition("/")
    if not slash:
        return key not in _WITHOUT_PREFIX
    of_cluster = any(prefix == domain or prefix.endswith(f".{domain}") for domain in _CLUSTERS_DOMAINS)
    return not names.reserved(key) and (not of_cluster or prefix == _USERS_PREFIX)
