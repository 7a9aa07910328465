"""Who may ask a simulated cluster for what: RBAC over the rules of manifests, and an audit log of every request.

A bearer token is the name of its user, with the names of his groups behind semicolons: this is a simulation, on the loopback interface.
Kubernetes' own rules, as far as clients of a fleet meet them: https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from workers.local.cluster.answers import RefusedError

_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_COLLECTIONS: Final = {"get": "list", "delete": "deletecollection"}
_APPLY: Final = "application/apply-patch"
_EVERYWHERE: Final = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attributes:
    """What a request asks for. `resource` has its subresource behind a slash; `namespace` is empty for the whole cluster."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule of a role; `namespace` is where its binding holds, empty for everywhere."""

    namespace: str
    groups: frozenset[str]
    resources: frozenset[str]
    verbs: frozenset[str]

    def allows(self, asked: Attributes) -> bool:
        """Whether this rule alone is enough."""
        return (
            self.namespace in {_EVERYWHERE, asked.namespace}
            and asked.verb in self.verbs
            and asked.group in self.groups
            and asked.resource in self.resources
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One line of the audit log: who asked for what, whether he might, and the status that he was answered."""

    user: str
    asked: Attributes
    allowed: bool
    status: int


class Access:
    """Holds requests to the rules, where there are any, and tells each to the log."""

    def __init__(self, rules: Mapping[str, Iterable[Rule]] | None, *, tell: Callable[[Record], None] = lambda _: None) -> None:
        self._rules = None if rules is None else {subject: tuple(those) for subject, those in rules.items()}
        self._tell = tell

    def check(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], exists: Callable[[str], bool]
    ) -> Callable[[int], None]:
        """Whether a request may be answered; whoever answers it tells its status to what is returned.

        `exists` says whether there is an object at a path: to apply one that isn't there takes the right to create it, too.
        Raises RefusedError: 401 without a token where there are rules, 403.
        """
        names = _caller(headers)
        wanted = list(attributes(method, path, query, headers, exists))
        if self._rules is None:
            return lambda status: self._note(names, wanted, status)
        if wanted and not names:
            raise RefusedError(401, "Unauthorized", "Unauthorized")
        for asked in wanted:
            if not any(rule.allows(asked) for name in names for rule in self._rules.get(name, ())):
                self._tell(Record(user=names[0], asked=asked, allowed=False, status=403))
                raise RefusedError(403, "Forbidden", _forbidden(names[0], asked))
        return lambda status: self._note(names, wanted, status)

    def _note(self, names: list[str], wanted: Iterable[Attributes], status: int) -> None:
        for asked in wanted:
            self._tell(Record(user=names[0] if names else "", asked=asked, allowed=True, status=status))


class AuditFile:
    """The log as a file of JSON lines, each what is there to tell of a `Record`; what was told before is not told again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told: set[tuple[str, str, str, str, str, bool]] = set()

    def tell(self, record: Record) -> None:
        """Append a record, unless the same user asked for the same before, whatever its name."""
        asked = record.asked
        about = (record.user, asked.verb, asked.group, asked.resource, asked.namespace, record.allowed)
        if about in self._told:
            return
        self._told.add(about)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")


def attributes(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], exists: Callable[[str], bool]
) -> Iterable[Attributes]:
    """What a request asks for; nothing for paths that are no resource's (`/version`), which everybody may read."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 1 else ""
    if namespace and len(rest) > 2:
        rest = rest[2:]
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    if len(rest) > 2:
        resource = f"{resource}/{rest[2]}"
    verb = _VERBS.get(method, method.lower())
    if not name:
        verb = _OF_COLLECTIONS.get(verb, verb)
        if verb == "list" and query.get("watch") in {"true", "1"}:
            verb = "watch"
    found = Attributes(verb=verb, group=group, resource=resource, namespace=namespace, name=name)
    yield found
    if verb == "patch" and headers.get("Content-Type", "").startswith(_APPLY) and not exists(path):
        yield Attributes(verb="create", group=group, resource=resource, namespace=namespace, name=name)


def rules_of(manifests: Iterable[Mapping[str, Any]]) -> dict[str, list[Rule]]:
    """The rules of each subject, from (Cluster)Roles and their bindings among some manifests. Raises KeyError for a missing role."""
    manifests = list(manifests)
    roles = {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in manifests}
    found: dict[str, list[Rule]] = {}
    for binding in manifests:
        if binding["kind"] not in {"ClusterRoleBinding", "RoleBinding"}:
            continue
        namespace = binding["metadata"].get("namespace", "") if binding["kind"] == "RoleBinding" else _EVERYWHERE
        reference = binding["roleRef"]
        role = roles[reference["kind"], namespace if reference["kind"] == "Role" else "", reference["name"]]
        for subject in binding.get("subjects", ()):
            found.setdefault(_subject(subject), []).extend(_rule(rule, namespace) for rule in role["rules"])
    return found


def _rule(rule: Mapping[str, Any], namespace: str) -> Rule:
    return Rule(
        namespace=namespace,
        groups=frozenset(rule["apiGroups"]),
        resources=frozenset(rule["resources"]),
        verbs=frozenset(rule["verbs"]),
    )


def _subject(subject: Mapping[str, str]) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return subject["name"]


def _caller(headers: Mapping[str, str]) -> list[str]:
    kind, _, token = headers.get("Authorization", "").partition(" ")
    return [name for name in token.split(";") if name] if kind.lower() == "bearer" else []


def _forbidden(user: str, asked: Attributes) -> str:
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    about = f'"{asked.name}" is forbidden: ' if asked.name else "is forbidden: "
    resource = f"{asked.resource.split('/')[0]}{'.' + asked.group if asked.group else ''}"
    return f'{resource} {about}User "{user}" cannot {asked.verb} resource "{asked.resource}" in API group "{asked.group}" {where}'
