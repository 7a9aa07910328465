"""Names, labels and annotations: the grammar of Kubernetes, and the keys that belong to the fleet.

Sources: apimachinery `util/validation` (DNS-1123, DNS-1035) and `api/validation/objectmeta.go` (annotations).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from shared.clusters.label_grammar import KEY_RULE, VALUE_RULE, is_label_value, is_qualified_name
from shared.clusters.names import reserved
from shared.policy.fields import Field

LABEL_RULE: Final = "must be a DNS label: at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit (RFC 1123)"
SUBDOMAIN_RULE: Final = "must be a DNS subdomain: at most 253 characters, parts of a-z, 0-9 and '-' between dots (RFC 1123)"
SERVICE_RULE: Final = "must be a DNS label that begins with a letter: at most 63 of a-z, 0-9 and '-' (RFC 1035)"

_DNS_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_DNS_1035: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")

_RESERVED_RULE: Final = "key must not be under gpufleet.io/, which belongs to the fleet"
MAX_ANNOTATION_BYTES: Final = (256 - 16) * 1024
"""What Kubernetes takes, less what the fleet adds to a Job and its pods: whose it is, and the labels that pods carry of their Job."""

_SET_BY_THE_CLUSTER: Final = (
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)


def is_dns_label(text: str) -> bool:
    """Whether a text can be the name of a namespace, a container or a Job."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_service_name(text: str) -> bool:
    """Whether a text can be the name of a Service on every version of Kubernetes."""
    return _DNS_1035.fullmatch(text) is not None


def check_metadata(metadata: Field, *, namespace: str | None) -> None:
    """Check all but the name of an object's metadata; a namespace of None is not known, and isn't compared."""
    found = metadata["namespace"]
    if found.given and namespace is not None and found.value != namespace:
        found.refuse(f"must be '{namespace}', the namespace of the submission, or be left out")
    check_marks(metadata)


def check_marks(metadata: Field) -> None:
    """Check labels and annotations, and that nothing is said that only a cluster sets. Of a template, its objects get all of that."""
    for name in _SET_BY_THE_CLUSTER:
        if metadata[name].value not in (None, "", [], {}):
            metadata[name].refuse("must be left out: only the cluster and its controllers set it")
    check_labels(metadata["labels"])
    check_annotations(metadata["annotations"])


def check_name(metadata: Field, is_good: Callable[[str], bool], rule: str) -> None:
    """Check that an object has a name, by the grammar of its kind."""
    name = metadata["name"]
    if metadata["generateName"].value is not None:
        metadata["generateName"].refuse(
            "must be left out: give a name, by which the object is known; for a job of the queue the fleet makes one that nothing else has"
        )
    if name.value in (None, ""):
        name.refuse("must be given")
    elif not is_good(name.text):
        name.refuse(rule)


def check_labels(labels: Field) -> None:
    """Check keys and values of labels; that they are strings is told by the schema."""
    for key, value in labels.items():
        _check_key(key, value, key)
        if not is_label_value(value.text):
            value.refuse(VALUE_RULE)


def check_annotations(annotations: Field) -> None:
    """Check keys and the size of annotations. The cluster reads their keys without regard to case."""
    size = 0
    for key, value in annotations.items():
        _check_key(key, value, key.lower())
        size += len(key.encode()) + len(value.text.encode())
    if size > MAX_ANNOTATION_BYTES:
        annotations.refuse(f"must have at most {MAX_ANNOTATION_BYTES} bytes of keys and values, and has {size}")


def _check_key(key: str, field: Field, read: str) -> None:
    if not is_qualified_name(read):
        field.refuse(KEY_RULE)
    elif reserved(key):
        field.refuse(_RESERVED_RULE)
