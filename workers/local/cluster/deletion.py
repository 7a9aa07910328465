"""How objects go: grace for pods, finalizers, foreground and background deletion, and what goes with its owner.

The rules are those of the API server's `BeforeDelete` and of the garbage collector
(https://kubernetes.io/docs/concepts/architecture/garbage-collection/).
"""

from __future__ import annotations

from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object, rfc3339
from workers.local.cluster.store import DELETED, Change, Entry
from workers.local.cluster.world import World

FOREGROUND, BACKGROUND, ORPHAN = "Foreground", "Background", "Orphan"
_FOREGROUND_FINALIZER = "foregroundDeletion"
# Seconds between two looks at a namespace that waits for its contents to go.
_NAMESPACE_INTERVAL = 0.1


def default_policy(kind: Kind) -> str:
    """What happens to dependants when a client doesn't say; `batch/v1` Jobs leave their pods behind, as ever."""
    return ORPHAN if kind.kind == "Job" else BACKGROUND


class Deletion:
    """Deletes objects and collects what they owned."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._namespaces = world.catalogue.core("Namespace")
        self._store.on_every_change(self._see)

    def delete(self, entry: Entry, *, policy: str = BACKGROUND, grace: float | None = None) -> Entry | None:
        """Start to delete an object. Returns what is left of it for now, or None when it is gone."""
        if policy == ORPHAN:
            self._orphan_dependants(entry)
        if entry.kind.kind == "Pod" and (seconds := self._grace(entry, grace)) > 0:
            return self._mark(entry, grace=seconds)
        if entry.kind.kind == "Namespace":
            return self._delete_namespace(entry)
        foreground = policy == FOREGROUND and bool(self._store.dependants(entry.uid))
        if foreground or entry.obj["metadata"].get("finalizers"):
            marked = self._mark(entry, grace=0, foreground=foreground)
            if foreground:
                self._soon(entry.uid)
            return marked
        self._store.remove(entry)
        return None

    def finish(self, entry: Entry) -> None:
        """Remove a pod whose containers have ended, unless a finalizer holds it."""
        if entry.obj["metadata"].get("finalizers"):
            metadata = {**entry.obj["metadata"], "deletionGracePeriodSeconds": 0}
            self._store.replace(entry, {**entry.obj, "metadata": metadata})
        else:
            self._store.remove(entry)

    def settle(self, entry: Entry) -> Entry | None:
        """Remove an object that was only held by finalizers and has none any more; otherwise leave it."""
        metadata = entry.obj["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return entry
        if entry.kind.kind == "Pod" and metadata.get("deletionGracePeriodSeconds"):
            return entry
        if entry.kind.kind == "Namespace":
            return entry
        self._store.remove(entry)
        return None

    def _grace(self, entry: Entry, asked: float | None) -> float:
        """Seconds until a pod may be removed; nothing runs in one that has no node or has ended."""
        spec, phase = entry.obj["spec"], entry.obj["status"].get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        return float(spec.get("terminationGracePeriodSeconds", 30)) if asked is None else asked

    def _mark(self, entry: Entry, *, grace: float, foreground: bool = False) -> Entry:
        metadata = entry.obj["metadata"]
        finalizers = list(metadata.get("finalizers") or ())
        if foreground and _FOREGROUND_FINALIZER not in finalizers:
            finalizers.append(_FOREGROUND_FINALIZER)
        if "deletionTimestamp" in metadata and finalizers == list(metadata.get("finalizers") or ()):
            return entry
        marked: Object = {
            **metadata,
            "deletionTimestamp": metadata.get("deletionTimestamp") or rfc3339(self._world.agenda.now + grace),
            "deletionGracePeriodSeconds": int(grace),
        }
        if finalizers:
            marked["finalizers"] = finalizers
        return self._store.replace(entry, {**entry.obj, "metadata": marked})

    def _orphan_dependants(self, owner: Entry) -> None:
        for dependant in self._store.dependants(owner.uid):
            self._drop_reference(dependant, {owner.uid})

    def _drop_reference(self, entry: Entry, uids: set[str]) -> None:
        metadata = dict(entry.obj["metadata"])
        left = [reference for reference in metadata.pop("ownerReferences") if reference["uid"] not in uids]
        if left:
            metadata["ownerReferences"] = left
        self._store.replace(entry, {**entry.obj, "metadata": metadata})
        for owner in map(self._store.by_uid, sorted(uids)):
            if owner is not None and _waits(owner):
                self._soon(owner.uid)

    def _see(self, change: Change) -> None:
        """Look again at the dependants of what went, at an owner that waits for what went, and at children of nobody."""
        metadata = change.new.obj["metadata"]
        if change.type == DELETED:
            if self._store.dependants(change.new.uid):
                self._soon(change.new.uid)
            for reference in metadata.get("ownerReferences") or ():
                owner = self._store.by_uid(reference["uid"])
                if owner is not None and "deletionTimestamp" in owner.obj["metadata"]:
                    self._soon(owner.uid)
            return
        old = change.old.obj["metadata"].get("ownerReferences") if change.old is not None else None
        references = metadata.get("ownerReferences")
        if references and references is not old:
            for reference in references:
                if self._store.by_uid(reference["uid"]) is None:
                    self._soon(reference["uid"])

    def _soon(self, owner: str) -> None:
        self._world.agenda.after(self._world.pace.controller_delay, lambda: self._collect(owner))

    def _collect(self, owner_uid: str) -> None:
        """Bring the dependants of an owner that is gone, or waits for them to go, in line with that."""
        owner = self._store.by_uid(owner_uid)
        if owner is not None and not _waits(owner):
            return
        for dependant in self._store.dependants(owner_uid):
            self._attempt_to_delete(dependant)
        owner = self._store.by_uid(owner_uid)
        if owner is not None and not self._blocked(owner):
            metadata = owner.obj["metadata"]
            finalizers = [finalizer for finalizer in metadata["finalizers"] if finalizer != _FOREGROUND_FINALIZER]
            released = self._store.replace(owner, {**owner.obj, "metadata": {**metadata, "finalizers": finalizers}})
            self.settle(released)

    def _attempt_to_delete(self, dependant: Entry) -> None:
        """Delete an object that no solid owner keeps; of one that has such an owner, take the references to the others away.

        An owner is solid when it is there and does not wait for its dependants to go. Without the second half, an owner that waits would
        wait for ever for what another one keeps (garbagecollector.go, attemptToDeleteItem).
        """
        metadata = dependant.obj["metadata"]
        if "deletionTimestamp" in metadata:
            return
        owners = {reference["uid"]: self._store.by_uid(reference["uid"]) for reference in metadata["ownerReferences"]}
        waiting = {uid for uid, owner in owners.items() if owner is not None and _waits(owner)}
        dangling = {uid for uid, owner in owners.items() if owner is None}
        if len(waiting) + len(dangling) < len(owners):
            if waiting or dangling:
                self._drop_reference(dependant, waiting | dangling)
        elif waiting and self._store.dependants(dependant.uid):
            self.delete(dependant, policy=FOREGROUND)
        else:
            self.delete(dependant, policy=BACKGROUND)

    def _blocked(self, owner: Entry) -> bool:
        return any(
            reference.get("blockOwnerDeletion") and reference["uid"] == owner.uid
            for dependant in self._store.dependants(owner.uid)
            for reference in dependant.obj["metadata"]["ownerReferences"]
        )

    def _delete_namespace(self, entry: Entry) -> Entry:
        marked = self._mark(entry, grace=0)
        marked = self._store.replace(marked, {**marked.obj, "status": {"phase": "Terminating"}})
        for content in self._store.in_namespace(entry.name):
            self.delete(content)
        self._look_again_at_namespace(marked.name)
        return marked

    def _look_again_at_namespace(self, name: str) -> None:
        self._world.agenda.after(_NAMESPACE_INTERVAL, lambda: self._look_at_namespace(name))

    def _look_at_namespace(self, name: str) -> None:
        entry = self._store.get(self._namespaces, "", name)
        if entry is None:
            return
        if self._store.in_namespace(name):
            self._look_again_at_namespace(name)
        else:
            self._store.remove(entry)


def _waits(owner: Entry) -> bool:
    """Whether an object is deleted in the foreground: it goes when its dependants have gone."""
    metadata = owner.obj["metadata"]
    return "deletionTimestamp" in metadata and _FOREGROUND_FINALIZER in (metadata.get("finalizers") or ())
