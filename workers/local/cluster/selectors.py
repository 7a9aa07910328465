"""Label and field selectors: parsed once for each request, then asked of many objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

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

_Labels = Mapping[str, str]
_Test = Callable[[_Labels], bool]
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s=!]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=!]*)$")
_KEY = re.compile(r"^(?P<not>!?)\s*(?P<key>[^\s=!()]+)$")


def _split(text: str) -> list[str]:
    """Cut at the commas outside parentheses."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def _label_test(part: str) -> tuple[_Test, tuple[str, str] | None]:
    """One requirement as a test, and as (key, value) where it is an equality."""
    if found := _SET.match(part):
        key, values = found["key"], frozenset(value.strip() for value in found["values"].split(","))
        if found["op"] == "in":
            return (lambda labels: labels.get(key) in values), None
        return (lambda labels: labels.get(key) not in values), None
    if found := _EQUAL.match(part):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return (lambda labels: labels.get(key) != value), None
        return (lambda labels: labels.get(key) == value), (key, value)
    if found := _KEY.match(part):
        key = found["key"]
        if found["not"]:
            return (lambda labels: key not in labels), None
        return (lambda labels: key in labels), None
    raise bad_request(f"unable to parse requirement: {part!r}")


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

    __slots__ = ("_field_tests", "_label_tests", "fields", "label")

    def __init__(self, kind: Kind, *, labels: str = "", fields: str = "") -> None:
        self.label: tuple[str, str] | None = None
        self.fields: dict[str, str] = {}
        self._label_tests: list[_Test] = []
        self._field_tests: list[tuple[tuple[str, ...], bool, str]] = []
        for part in _split(labels) if labels else ():
            test, equality = _label_test(part)
            self._label_tests.append(test)
            if equality and equality[0] in INDEXED_LABELS:
                self.label = equality
        for part in _split(fields) if fields else ():
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
        return not self._label_tests and not self._field_tests

    def matches(self, obj: Object) -> bool:
        """Whether the object fulfils every requirement."""
        if self._label_tests:
            labels = obj["metadata"].get("labels") or {}
            for test in self._label_tests:
                if not test(labels):
                    return False
        return all((_field_value(obj, path) == value) is positive for path, positive, value in self._field_tests)
