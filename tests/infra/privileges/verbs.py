"""Holds the audit log of clusters against the roles that are applied to them: which rules nobody ever needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.local.cluster.access import Attributes, Record, rules_of


@dataclass(frozen=True, kw_only=True, order=True)
class Verb:
    """A part of a rule that could be taken away by itself; `namespace` is empty where it holds in the whole cluster."""

    user: str
    verb: str
    resource: str
    group: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.user}: {self.verb} {self.resource}{'.' + self.group if self.group else ''} in {self.namespace or 'all namespaces'}"


def read(path: Path) -> list[Record]:
    """The audit log that `workers.local.cluster` writes; a last line that is still being written is left out."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    return [Record(**line | {"asked": Attributes(**line["asked"])}) for line in lines]


def refused(records: Iterable[Record]) -> list[str]:
    """What was asked for without the right to it."""
    return sorted({f"{one.user}: {one.asked.verb} {one.asked.resource} in {one.asked.namespace}" for one in records if not one.allowed})


def unused(records: Iterable[Record], manifests: Iterable[Mapping[str, Any]]) -> list[Verb]:
    """What the roles among some manifests allow and nobody asked for."""
    return never_asked(records, _verbs(manifests))


def never_asked(records: Iterable[Record], verbs: Iterable[Verb]) -> list[Verb]:
    """Those of some verbs that nobody asked for with success."""
    asked = [(one.user, one.asked) for one in records if one.allowed]
    return sorted(verb for verb in verbs if not any(user == verb.user and _is(verb, what) for user, what in asked))


def _verbs(manifests: Iterable[Mapping[str, Any]]) -> Iterator[Verb]:
    for user, rules in rules_of(manifests).items():
        for rule in rules:
            for group in rule.groups:
                for resource in rule.resources:
                    for verb in rule.verbs:
                        yield Verb(user=user, verb=verb, resource=resource, group=group, namespace=rule.namespace)


def _is(verb: Verb, what: Attributes) -> bool:
    return (what.verb, what.resource, what.group) == (verb.verb, verb.resource, verb.group) and verb.namespace in {"", what.namespace}
