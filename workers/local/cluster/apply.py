"""Server-side apply: who owns which field, what conflicts, and what goes when its owner no longer applies it.

A field set is a set of paths, written as in `managedFields`: `f:` for a field, `k:` for a list item with that identity,
`v:` for a member of a set. Only appliers have their field sets kept one by one. Whoever writes otherwise (create, update, patch) is
kept as one further owner of everything that no applier owns, and of what an applier took up without changing it: that is all that is
needed to tell the conflicts, and what stays when an applier lets go of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from workers.local.cluster.answers import RefusedError, bad_request
from workers.local.cluster.list_keys import identity, is_atomic, is_set, keys_of
from workers.local.cluster.objects import Object

Path = tuple[str, ...]
# Fields that identify an object or belong to the server; nobody owns them.
_UNOWNED = frozenset({"apiVersion", "kind", "status"})
_UNOWNED_METADATA = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp"}
)


def _item(name: tuple[tuple[str, Any], ...]) -> str:
    return "k:" + json.dumps(dict(name), separators=(",", ":"))


def _steps(field: str, value: Any) -> Iterator[tuple[str, str, Any]] | None:
    """The children of a value as (path step, field name, value), or None for a leaf."""
    if isinstance(value, dict) and value and not is_atomic(field):
        return ((f"f:{key}", key, child) for key, child in value.items())
    if isinstance(value, list) and value:
        if is_set(field):
            return ((f"v:{json.dumps(member)}", "", member) for member in value)
        keys = keys_of(field, value)
        if keys is not None:
            return ((_item(identity(child, keys)), "", child) for child in value)
    return None


def leaves(value: Any, field: str = "", path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf of a value with its path."""
    steps = _steps(field, value)
    if steps is None:
        if path:
            yield path, value
        return
    for step, name, child in steps:
        yield from leaves(child, name, (*path, step))


def owned_leaves(obj: Object) -> dict[Path, Any]:
    """The leaves of an object that somebody can own."""
    rest = {key: value for key, value in obj.items() if key not in _UNOWNED}
    rest["metadata"] = {key: value for key, value in obj.get("metadata", {}).items() if key not in _UNOWNED_METADATA}
    if not rest["metadata"]:
        del rest["metadata"]
    return dict(leaves(rest))


def to_fields(paths: set[Path]) -> Object:
    """A field set as `fieldsV1`."""
    root: Object = {}
    for path in sorted(paths):
        node = root
        for step in path:
            node = node.setdefault(step, {})
    return root


def from_fields(fields: Object, path: Path = ()) -> set[Path]:
    """The field set of a `fieldsV1`."""
    if not fields:
        return {path} if path else set()
    return {leaf for step, below in fields.items() for leaf in from_fields(below, (*path, step))}


def _merge(field: str, live: Any, applied: Any) -> Any:
    if isinstance(applied, dict) and isinstance(live, dict) and not is_atomic(field):
        result = dict(live)
        for key, value in applied.items():
            result[key] = _merge(key, live.get(key), value)
        return result
    if isinstance(applied, list) and isinstance(live, list):
        if is_set(field):
            return [*live, *(item for item in applied if item not in live)]
        keys = keys_of(field, [*live, *applied])
        if keys is not None:
            items = {identity(item, keys): item for item in live}
            for item in applied:
                name = identity(item, keys)
                items[name] = _merge("", items.get(name), item)
            return list(items.values())
    return applied


def _without(value: Any, field: str, path: Path) -> Any:
    """The value without the leaf at the path, and without what becomes empty by that."""
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        key = step[2:]
        if key not in value:
            return value
        result = dict(value)
        below = _without(value[key], key, rest) if rest else None
        if below in (None, {}, []):
            del result[key]
        else:
            result[key] = below
        return result
    if isinstance(value, list) and step.startswith("v:"):
        return [item for item in value if f"v:{json.dumps(item)}" != step]
    if isinstance(value, list) and (keys := keys_of(field, value)) is not None:
        kept: list[Any] = []
        for item in value:
            if _item(identity(item, keys)) != step:
                kept.append(item)
                continue
            below = _without(item, "", rest) if rest else None
            # An item of which only the identity is left has no owner any more.
            if below and set(below) - set(keys):
                kept.append(below)
        return kept
    return value


class Owners:
    """The `managedFields` of one object."""

    def __init__(self, metadata: Object) -> None:
        self.entries: list[Object] = list(metadata.get("managedFields") or ())

    def appliers(self) -> dict[str, set[Path]]:
        """The field sets of those who apply, by manager."""
        return {entry["manager"]: from_fields(entry["fieldsV1"]) for entry in self.entries if entry["operation"] == "Apply"}

    def others(self) -> list[str]:
        """The managers that wrote otherwise, the last one first."""
        return [entry["manager"] for entry in reversed(self.entries) if entry["operation"] == "Update"]

    def shared(self) -> set[Path]:
        """The leaves that appliers own together with those who wrote otherwise."""
        return {path for entry in self.entries if entry["operation"] == "Update" for path in from_fields(entry["fieldsV1"])}

    def share(self, paths: set[Path]) -> None:
        """Let those who wrote otherwise keep leaves that an applier owns from now on too."""
        writers = [entry for entry in self.entries if entry["operation"] == "Update"]
        if writers and paths:
            self._set_shared(writers[-1], from_fields(writers[-1]["fieldsV1"]) | paths)

    def _set_shared(self, entry: Object, paths: set[Path]) -> None:
        place = self.entries.index(entry)
        self.entries[place] = {**entry, "fieldsV1": to_fields(paths)}

    def set_applier(self, manager: str, paths: set[Path], *, api_version: str, time: str) -> None:
        """Put a manager's field set in place; an empty one takes it off the list. Appliers stand first, as a real server sorts them."""
        appliers = {entry["manager"]: entry for entry in self.entries if entry["operation"] == "Apply"}
        appliers[manager] = _entry(manager, "Apply", api_version, time, to_fields(paths))
        if not paths:
            del appliers[manager]
        self.entries = [*appliers.values(), *(entry for entry in self.entries if entry["operation"] != "Apply")]

    def set_other(self, manager: str, *, api_version: str, time: str) -> None:
        """Note a manager that wrote without applying."""
        before = [entry for entry in self.entries if entry["operation"] == "Update" and entry["manager"] == manager]
        self.entries = [entry for entry in self.entries if entry not in before]
        self.entries.append(_entry(manager, "Update", api_version, time, before[0]["fieldsV1"] if before else {}))

    def disown(self, paths: set[Path], *, api_version: str, time: str) -> None:
        """Take leaves from everybody who is named as their owner, since somebody else has changed them."""
        for entry in [entry for entry in self.entries if entry["operation"] == "Update" and entry["fieldsV1"]]:
            self._set_shared(entry, from_fields(entry["fieldsV1"]) - paths)
        for manager, owned in self.appliers().items():
            if owned & paths:
                self.set_applier(manager, owned - paths, api_version=api_version, time=time)


def _entry(manager: str, operation: str, api_version: str, time: str, fields: Object) -> Object:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def apply(live: Object, applied: Object, *, manager: str, force: bool, api_version: str, time: str) -> Object:
    """The live object with the applied configuration in it. Raises a 409 that names every conflict, unless forced."""
    if not manager:
        raise bad_request("PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch")
    owners = Owners(live["metadata"])
    appliers = owners.appliers()
    mine = appliers.pop(manager, set())
    wanted = owned_leaves(applied)
    there = owned_leaves(live)
    differing = {path for path, value in wanted.items() if path in there and there[path] != value}
    conflicts = _conflicts(differing, mine, appliers, owners.others())
    if conflicts and not force:
        raise _conflict_error(conflicts)
    owners.disown(differing, api_version=api_version, time=time)
    taken_up = (wanted.keys() & there.keys()) - differing - mine
    owners.share(taken_up.difference(*appliers.values()))
    held_by_others = owners.shared().union(*(owned for manager, owned in owners.appliers().items() if manager in appliers))
    result: Object = live
    for path in sorted(mine - wanted.keys() - held_by_others):
        result = _without(result, "", path)
    result = _merge("", result, {key: value for key, value in applied.items() if key not in _UNOWNED})
    owners.set_applier(manager, set(wanted), api_version=api_version, time=time)
    before = Owners(live["metadata"])
    unchanged = [{**entry, "time": ""} for entry in before.entries] == [{**entry, "time": ""} for entry in owners.entries]
    result["metadata"] = {**result.get("metadata", {}), "managedFields": before.entries if unchanged else owners.entries}
    return result


def _conflicts(differing: set[Path], mine: set[Path], appliers: dict[str, set[Path]], others: list[str]) -> dict[Path, str]:
    conflicts: dict[Path, str] = {}
    for path in sorted(differing):
        owner = next((manager for manager, owned in appliers.items() if path in owned), None)
        if owner is None and path not in mine and others:
            owner = others[0]
        if owner is not None:
            conflicts[path] = owner
    return conflicts


def _conflict_error(conflicts: dict[Path, str]) -> RefusedError:
    causes = []
    for path, owner in conflicts.items():
        field = "".join(f".{step[2:]}" if step.startswith("f:") else f"[{step[2:].strip('{}')}]" for step in path)
        causes.append({"reason": "FieldManagerConflict", "message": f'conflict with "{owner}"', "field": field})
    listed = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    number = len(causes)
    message = f"Apply failed with {number} conflict{'s' if number != 1 else ''}: {listed}"
    return RefusedError(409, "Conflict", message, details={"causes": causes})
