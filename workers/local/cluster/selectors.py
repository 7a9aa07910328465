"""Label and field selectors: parsed once for each request, then asked of many objects."""

from __future__ import annotations

import re
from typing import Any

from shared.clusters.selectors import Operator, parse_selector
from shared.errors import InvalidError
from workers.local.cluster.answers import bad_request
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object

# Labels by which the store keeps an index, since a client asks for the pods of one Job again and again.
INDEXED_LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "job-name", "gpufleet.io/job-id")

_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    ),
    "jobs": ("status.successful",),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}

_EQUAL = re.compile(r"^(?P<key>[^\s=!]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=!]*)$")


def _field_value(obj: Object, path: tuple[str, ...]) -> str:
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Selector:
    """Which objects of a kind a request is about; an empty one takes all.

    `label` and `fields` hold the equalities that an index can answer.
    """

    __slots__ = ("_field_tests", "_requirements", "fields", "label")

    def __init__(self, kind: Kind, *, labels: str = "", fields: str = "") -> None:
        self.label: tuple[str, str] | None = None
        self.fields: dict[str, str] = {}
        self._field_tests: list[tuple[tuple[str, ...], bool, str]] = []
        try:
            self._requirements = parse_selector(labels) if labels else ()
        except InvalidError as invalid:
            raise bad_request(f"unable to parse requirement: {invalid}") from None
        for one in self._requirements:
            if one.key in INDEXED_LABELS and one.operator is Operator.IN and len(one.values) == 1:
                (value,) = one.values
                self.label = (one.key, value)
        for part in filter(None, map(str.strip, fields.split(","))):
            self._add_field(kind, part)

    def _add_field(self, kind: Kind, part: str) -> None:
        found = _EQUAL.match(part)
        if found is None:
            raise bad_request(f"invalid selector: {part!r}; can't understand {part!r}")
        key, positive, value = found["key"], found["op"] != "!=", found["value"]
        if key not in ("metadata.name", "metadata.namespace") and key not in _FIELDS.get(kind.plural, ()):
            raise bad_request(f'Unable to find "{kind.api_version}, Resource={kind.plural}": field label not supported: {key}')
        path = ("source", "component") if key == "source" else tuple(key.split("."))
        self._field_tests.append((path, positive, value))
        if positive:
            self.fields[key] = value

    @property
    def empty(self) -> bool:
        """Whether every object matches."""
        return not self._requirements and not self._field_tests

    def matches(self, obj: Object) -> bool:
        """Whether the object fulfils every requirement."""
        if self._requirements:
            labels = obj["metadata"].get("labels") or {}
            for one in self._requirements:
                if not one.matches(labels):
                    return False
        return all((_field_value(obj, path) == value) is positive for path, positive, value in self._field_tests)
