"""What the API server refuses in a new or changed object: metadata for every kind, and the rules of Jobs and pods.

The rules follow `pkg/apis/batch/validation` and `pkg/apis/core/validation` of Kubernetes, as far as a GPU job meets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from workers.local.cluster.answers import Cause, bad_request
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object
from workers.local.cluster.resources import amount

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# apimachinery, validation.TotalAnnotationSizeLimitB.
_ANNOTATIONS_LIMIT = 256 * 1024
_QUANTITY = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NATIVE = ("cpu", "memory", "ephemeral-storage")
REQUIRED, UNSUPPORTED, TOO_LONG, FORBIDDEN = (
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueForbidden",
)


def _invalid(field: str, value: Any, message: str) -> Cause:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Cause(field=field, message=f"Invalid value: {shown[:200]}: {message}")


def _required(field: str, message: str = "") -> Cause:
    return Cause(field=field, message=f"Required value{': ' if message else ''}{message}", reason=REQUIRED)


def metadata_faults(kind: Kind, metadata: Object) -> Iterator[Cause]:
    """Name, labels and annotations."""
    name = metadata.get("name") or ""
    if not name:
        yield _required("metadata.name", "name or generateName is required")
    else:
        yield from _name_faults(kind, name)
    for key, value in (metadata.get("labels") or {}).items():
        if not isinstance(value, str) or len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            rule = "a valid label must be an empty string or at most 63 of alphanumeric characters, '-', '_' or '.'"
            yield _invalid("metadata.labels", value, rule)
        if not _LABEL_KEY.fullmatch(key):
            yield _invalid("metadata.labels", key, "name part must consist of alphanumeric characters, '-', '_' or '.'")
    size = 0
    for key, value in (metadata.get("annotations") or {}).items():
        if not _LABEL_KEY.fullmatch(key.lower()):
            yield _invalid("metadata.annotations", key, "name part must consist of alphanumeric characters, '-', '_' or '.'")
        if not isinstance(value, str):
            yield _invalid("metadata.annotations", value, "must be a string")
        else:
            size += len(key) + (len(value) if value.isascii() else len(value.encode()))
    if size > _ANNOTATIONS_LIMIT:
        message = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield Cause(field="metadata.annotations", message=message, reason=TOO_LONG)


def _name_faults(kind: Kind, name: str) -> Iterator[Cause]:
    if kind.kind in ("Service", "Namespace"):
        pattern, limit = (_SERVICE_NAME if kind.kind == "Service" else _DNS_LABEL), 63
    else:
        # The pods of a Job carry its name as a label and a suffix to their own, hence 63.
        pattern, limit = _DNS_SUBDOMAIN, 63 if kind.kind in ("Job", "StatefulSet") else 253
    if kind.group == "rbac.authorization.k8s.io":
        return
    if len(name) > limit:
        yield _invalid("metadata.name", name, f"must be no more than {limit} characters")
    elif not pattern.fullmatch(name):
        rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        yield _invalid("metadata.name", name, rule)


def job_faults(spec: Object) -> Iterator[Cause]:
    """The spec of a Job."""
    counts = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
    for field in counts:
        value = spec.get(field)
        if value is not None and (not isinstance(value, int) or value < 0):
            yield _invalid(f"spec.{field}", value, "must be greater than or equal to 0")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        yield _required("spec.completions", "when completion mode is Indexed")
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    policy = pod.get("restartPolicy")
    if policy not in ("Never", "OnFailure"):
        path = "spec.template.spec.restartPolicy"
        if policy in (None, ""):
            yield _required(path, 'valid values: "OnFailure", "Never"')
        else:
            message = f'Unsupported value: "{policy}": supported values: "OnFailure", "Never"'
            yield Cause(field=path, message=message, reason=UNSUPPORTED)
    if spec.get("podFailurePolicy") and policy != "Never":
        yield _invalid("spec.template.spec.restartPolicy", policy, 'only "Never" is supported when podFailurePolicy is specified')
    yield from pod_faults(pod, "spec.template.spec")


def pod_faults(spec: Object, path: str) -> Iterator[Cause]:
    """The spec of a pod."""
    containers = spec.get("containers")
    if not containers:
        yield _required(f"{path}.containers")
        return
    names: set[str] = set()
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group) or ()):
            yield from _container_faults(container, f"{path}.{group}[{number}]", names)


def _container_faults(container: Object, path: str, names: set[str]) -> Iterator[Cause]:
    name = container.get("name")
    if not name:
        yield _required(f"{path}.name")
    elif len(name) > 63 or not _DNS_LABEL.fullmatch(name):
        yield _invalid(f"{path}.name", name, "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'")
    elif name in names:
        yield Cause(field=f"{path}.name", message=f'Duplicate value: "{name}"', reason="FieldValueDuplicate")
    names.add(name or "")
    if not container.get("image"):
        yield _required(f"{path}.image")
    for number, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield _required(f"{path}.env[{number}].name")
        if not isinstance(variable.get("value", ""), str | None):
            yield _invalid(f"{path}.env[{number}].value", variable["value"], "must be a string")
    yield from _resource_faults(container.get("resources") or {}, f"{path}.resources")


def _resource_faults(resources: Object, path: str) -> Iterator[Cause]:
    sizes: dict[str, dict[str, int]] = {"requests": {}, "limits": {}}
    for part, found in sizes.items():
        for resource, quantity in (resources.get(part) or {}).items():
            field = f"{path}.{part}[{resource}]"
            try:
                found[resource] = amount(resource, quantity)
            except ValueError as error:
                # The real server meets this when it decodes the body, before it validates anything.
                raise bad_request(f"{field}: quantities must match the regular expression {_QUANTITY}") from error
            if found[resource] < 0:
                yield _invalid(field, quantity, "must be greater than or equal to 0")
    for resource, request in sizes["requests"].items():
        limit = sizes["limits"].get(resource)
        extended = resource not in _NATIVE and not resource.startswith("hugepages-")
        if extended and limit is None:
            message = "Limit must be set for non overcommitable resources"
            yield Cause(field=f"{path}.limits", message=f"Required value: {message}", reason=REQUIRED)
        elif extended and request != limit:
            yield _invalid(f"{path}.requests", request, f"must be equal to {resource} limit of {limit}")
        elif limit is not None and request > limit:
            yield _invalid(f"{path}.requests", request, f"must be less than or equal to {resource} limit of {limit}")


def faults_of(kind: Kind, obj: Object) -> list[Cause]:
    """Everything that is wrong with an object."""
    faults = list(metadata_faults(kind, obj["metadata"]))
    if kind.kind == "Job":
        faults.extend(job_faults(obj.get("spec") or {}))
    elif kind.kind == "Pod":
        faults.extend(pod_faults(obj.get("spec") or {}, "spec"))
    return faults
