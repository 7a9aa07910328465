"""All objects of one cluster under one version counter, as etcd and the API server's watch cache hold them.

A write costs one new dictionary for the object and one for its metadata. An object becomes text only when somebody
reads it, and then once for each version, however many watches it goes to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeVar

from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object, to_json
from workers.local.cluster.selectors import INDEXED_LABELS, Selector

_K = TypeVar("_K")
_V = TypeVar("_V")

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class Entry:
    """One version of one object. `obj` has no `kind` and `apiVersion`; those are the kind's."""

    __slots__ = ("_body", "kind", "name", "namespace", "obj", "uid", "version")

    def __init__(self, kind: Kind, obj: Object, version: int) -> None:
        metadata = obj["metadata"]
        self.kind = kind
        self.obj = obj
        self.version = version
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        """The object as JSON without `kind` and `apiVersion`, as it stands in a list of its kind."""
        if self._body is None:
            self._body = to_json(self.obj)
        return self._body

    @property
    def document(self) -> bytes:
        """The whole object as JSON."""
        return self.kind.prefix + self.body[1:]

    def whole(self) -> Object:
        """The object with `kind` and `apiVersion`; shares its parts, so it must not be changed in depth."""
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **self.obj}


class Change:
    """One write: what was there before (None for a create) and what is there now (for a delete, its last state)."""

    __slots__ = ("_lines", "new", "old", "type")

    def __init__(self, kind: str, old: Entry | None, new: Entry) -> None:
        self.type = kind
        self.old = old
        self.new = new
        self._lines: dict[str, bytes] = {}

    def line(self, kind: str) -> bytes:
        """The line of a watch; the same bytes for every watch that it goes to."""
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = event_line(kind, self.new)
        return line


def event_line(kind: str, entry: Entry) -> bytes:
    """One line of a watch stream."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), entry.document)


class _Shelf:
    """The objects of one kind, with its history."""

    __slots__ = ("by_involved", "by_label", "compacted", "history", "keys", "objects", "watchers")

    def __init__(self, history_limit: int) -> None:
        self.objects: dict[tuple[str, str], Entry] = {}
        self.keys: list[tuple[str, str]] | None = []
        self.by_label: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
        self.by_involved: dict[str, dict[tuple[str, str], None]] = {}
        self.history: deque[Change] = deque(maxlen=history_limit)
        self.compacted = 0
        self.watchers: dict[int, Callable[[Change], None]] = {}


def _index_labels(obj: Object) -> list[tuple[str, str]]:
    labels = obj["metadata"].get("labels")
    return [(key, labels[key]) for key in INDEXED_LABELS if key in labels] if labels else []


def _owner_uids(obj: Object) -> list[str]:
    return [reference["uid"] for reference in obj["metadata"].get("ownerReferences") or ()]


class Store:
    """Objects by kind, namespace and name; by owner; by the labels and fields that clients select by."""

    def __init__(self, *, history_limit: int) -> None:
        self.version = 1
        self._history_limit = history_limit
        self._shelves: dict[str, _Shelf] = {}
        self._by_uid: dict[str, Entry] = {}
        self._by_owner: dict[str, dict[str, None]] = {}
        self._listeners: dict[str, list[Callable[[Change], None]]] = {}
        self._everywhere: list[Callable[[Change], None]] = []
        self._watch_count = 0

    def _shelf(self, kind: Kind) -> _Shelf:
        shelf = self._shelves.get(kind.resource)
        if shelf is None:
            shelf = self._shelves[kind.resource] = _Shelf(self._history_limit)
            shelf.compacted = 0
        return shelf

    def on_change(self, kind: Kind, listener: Callable[[Change], None]) -> None:
        """Tell a controller of every write of a kind, at once and in order."""
        self._listeners.setdefault(kind.resource, []).append(listener)

    def on_every_change(self, listener: Callable[[Change], None]) -> None:
        """Tell a controller of every write of any kind."""
        self._everywhere.append(listener)

    def get(self, kind: Kind, namespace: str, name: str) -> Entry | None:
        """The object of that name, or None."""
        return self._shelf(kind).objects.get((namespace, name))

    def by_uid(self, uid: str) -> Entry | None:
        """The object with that UID, or None."""
        return self._by_uid.get(uid)

    def dependants(self, uid: str) -> list[Entry]:
        """The objects that name this UID as an owner, in the order in which they came to do so."""
        by_uid = self._by_uid
        return [by_uid[dependant] for dependant in self._by_owner.get(uid, ())]

    def create(self, kind: Kind, obj: Object) -> Entry:
        """Store a new object, which must have name and UID."""
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        entry = Entry(kind, obj, self.version)
        shelf = self._shelf(kind)
        key = (entry.namespace, entry.name)
        shelf.objects[key] = entry
        shelf.keys = None
        self._by_uid[entry.uid] = entry
        for label in _index_labels(obj):
            shelf.by_label.setdefault(label, {})[key] = None
        if kind.plural == "events":
            shelf.by_involved.setdefault(obj["involvedObject"].get("name", ""), {})[key] = None
        for owner in _owner_uids(obj):
            self._by_owner.setdefault(owner, {})[entry.uid] = None
        self._tell(shelf, Change(ADDED, None, entry))
        return entry

    def replace(self, old: Entry, obj: Object) -> Entry:
        """Store the next version of an object; `old` must be the current one."""
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        entry = Entry(old.kind, obj, self.version)
        shelf = self._shelf(old.kind)
        key = (entry.namespace, entry.name)
        shelf.objects[key] = entry
        self._by_uid[entry.uid] = entry
        self._reindex(shelf, key, old.obj, obj, entry.uid)
        self._tell(shelf, Change(MODIFIED, old, entry))
        return entry

    def _reindex(self, shelf: _Shelf, key: tuple[str, str], old: Object, new: Object, uid: str) -> None:
        before, after = old["metadata"], new["metadata"]
        if before.get("labels") is not after.get("labels"):
            for label in _index_labels(old):
                _discard(shelf.by_label, label, key)
            for label in _index_labels(new):
                shelf.by_label.setdefault(label, {})[key] = None
        if before.get("ownerReferences") is not after.get("ownerReferences"):
            owners = _owner_uids(new)
            for owner in _owner_uids(old):
                if owner not in owners:
                    _discard(self._by_owner, owner, uid)
            for owner in owners:
                self._by_owner.setdefault(owner, {})[uid] = None

    def remove(self, old: Entry) -> Entry:
        """Take an object away; the entry that watches see has the version of the removal."""
        self.version += 1
        obj = {**old.obj, "metadata": {**old.obj["metadata"], "resourceVersion": str(self.version)}}
        entry = Entry(old.kind, obj, self.version)
        shelf = self._shelf(old.kind)
        key = (entry.namespace, entry.name)
        del shelf.objects[key]
        shelf.keys = None
        del self._by_uid[entry.uid]
        for label in _index_labels(obj):
            _discard(shelf.by_label, label, key)
        if old.kind.plural == "events":
            _discard(shelf.by_involved, obj["involvedObject"].get("name", ""), key)
        for owner in _owner_uids(obj):
            _discard(self._by_owner, owner, entry.uid)
        self._tell(shelf, Change(DELETED, old, entry))
        return entry

    def _tell(self, shelf: _Shelf, change: Change) -> None:
        history = shelf.history
        if len(history) == history.maxlen:
            shelf.compacted = history[0].new.version
        history.append(change)
        for watcher in tuple(shelf.watchers.values()):
            watcher(change)
        for listener in chain(self._listeners.get(change.new.kind.resource, ()), self._everywhere):
            listener(change)

    def select(self, kind: Kind, namespace: str, selector: Selector) -> list[Entry]:
        """The objects of a kind in the order of namespace and name; `namespace` "" means all."""
        shelf = self._shelf(kind)
        objects = shelf.objects
        keys = self._candidates(shelf, namespace, selector)
        if namespace:
            keys = (key for key in keys if key[0] == namespace)
        entries = [objects[key] for key in keys]
        return entries if selector.empty else [entry for entry in entries if selector.matches(entry.obj)]

    def _candidates(self, shelf: _Shelf, namespace: str, selector: Selector) -> Iterable[tuple[str, str]]:
        name = selector.fields.get("metadata.name")
        if name is not None and namespace:
            return [(namespace, name)] if (namespace, name) in shelf.objects else []
        if selector.label is not None:
            return sorted(shelf.by_label.get(selector.label, ()))
        involved = selector.fields.get("involvedObject.name")
        if involved is not None:
            return sorted(shelf.by_involved.get(involved, ()))
        if shelf.keys is None:
            shelf.keys = sorted(shelf.objects)
        return shelf.keys

    def count(self, kind: Kind) -> int:
        """How many objects of a kind there are."""
        return len(self._shelf(kind).objects)

    def in_namespace(self, namespace: str) -> list[Entry]:
        """Everything in a namespace, of whatever kind."""
        return [entry for shelf in self._shelves.values() for entry in shelf.objects.values() if entry.namespace == namespace]

    def since(self, kind: Kind, version: int) -> list[Change] | None:
        """The writes of a kind after a version; None when history no longer reaches so far back."""
        shelf = self._shelf(kind)
        if version < shelf.compacted:
            return None
        result: list[Change] = []
        for change in reversed(shelf.history):
            if change.new.version <= version:
                break
            result.append(change)
        result.reverse()
        return result

    def watch(self, kind: Kind, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Call `watcher` with every write of a kind from now on; returns what stops it."""
        self._watch_count += 1
        watchers, number = self._shelf(kind).watchers, self._watch_count
        watchers[number] = watcher
        return lambda: watchers.pop(number, None) and None

    def compact(self) -> None:
        """Forget all history, so that every watch from an older version is answered with 410."""
        for shelf in self._shelves.values():
            shelf.history.clear()
            shelf.compacted = self.version


def _discard(index: dict[_K, dict[_V, None]], key: _K, value: _V) -> None:
    members = index.get(key)
    if members is not None:
        members.pop(value, None)
        if not members:
            del index[key]
