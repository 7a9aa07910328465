"""Create, update and patch: what a write must fulfil before it becomes the next version of an object."""

from __future__ import annotations

from collections.abc import Mapping

from workers.local.cluster import patches
from workers.local.cluster.answers import (
    MODIFIED,
    RefusedError,
    Response,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    too_large,
    unreadable,
)
from workers.local.cluster.apply import Owners, apply, owned_leaves
from workers.local.cluster.bodies import check_kind, decode, decode_object, manager_name, media_type
from workers.local.cluster.defaults import Defaults
from workers.local.cluster.deletion import Deletion
from workers.local.cluster.immutability import changes_refused
from workers.local.cluster.kinds import BUILT_IN, Kind
from workers.local.cluster.objects import Object, to_json
from workers.local.cluster.routes import Route
from workers.local.cluster.store import Entry
from workers.local.cluster.strictness import check_declared, decoded, without_nulls
from workers.local.cluster.validation import faults_of
from workers.local.cluster.world import World

_SERVER_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "namespace",
    "name",
    "generateName",
)
# Kinds whose `metadata.generation` counts the changes of their spec; custom ones do.
_COUNTED = frozenset({"Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod", "Ingress", "NetworkPolicy"})

Query = Mapping[str, str]
Headers = Mapping[str, str]


class Writing:
    """Answers what creates or changes objects."""

    def __init__(self, world: World, deletion: Deletion, *, etcd_limit: int) -> None:
        self._world = world
        self._store = world.store
        self._deletion = deletion
        self._etcd_limit = etcd_limit
        self._defaults = Defaults()
        self._namespaces = world.catalogue.core("Namespace")

    def create(self, route: Route, query: Query, headers: Headers, body: bytes | None) -> Response:
        """Store a new object."""
        obj = decode_object(route, body)
        obj = _decoded(route, query, obj, body)
        owners = Owners({})
        owners.set_other(manager_name(query, headers), api_version=route.kind.api_version, time=self._world.timestamp)
        return self._create(route, obj, owners, sent=len(body or b""), dry=_is_dry(query))

    def _create(self, route: Route, obj: Object, owners: Owners, *, sent: int, dry: bool) -> Response:
        kind = route.kind
        self._check_namespace(route, obj)
        metadata = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "selfLink")}
        if not metadata.get("name") and metadata.get("generateName"):
            # apimachinery, names.SimpleNameGenerator: the base is cut so that the name stays below 63 characters.
            metadata["name"] = f"{metadata['generateName'][:58]}{self._world.randomness.suffix()}"
        name = metadata.get("name") or ""
        if name and self._store.get(kind, metadata.get("namespace", ""), name) is not None:
            raise already_exists(kind, name)
        metadata |= {
            "uid": self._world.randomness.uid(),
            "creationTimestamp": self._world.timestamp,
            "managedFields": owners.entries,
        }
        metadata.pop("deletionTimestamp", None)
        if _counts(kind):
            metadata["generation"] = 1
        self._refuse_faults(kind, {**obj, "metadata": metadata})
        complete = self._defaults.complete(kind, {**obj, "metadata": metadata})
        self._refuse_large(complete, sent)
        if dry:
            return Response(status=201, body=kind.prefix + to_json(complete)[1:])
        return Response(status=201, body=self._store.create(kind, complete).document)

    def _check_namespace(self, route: Route, obj: Object) -> None:
        if not route.kind.namespaced:
            return
        if not route.namespace:
            raise bad_request("an empty namespace may not be set during creation")
        namespace = self._store.get(self._namespaces, "", route.namespace)
        if namespace is None:
            raise not_found(self._namespaces, route.namespace)
        if "deletionTimestamp" in namespace.obj["metadata"]:
            name = obj["metadata"].get("name", "")
            why = f"unable to create new content in namespace {route.namespace} because it is being terminated"
            raise RefusedError(403, "Forbidden", f'{route.kind.resource} "{name}" is forbidden: {why}')

    def _refuse_faults(self, kind: Kind, obj: Object) -> None:
        faults = faults_of(kind, obj)
        if faults:
            raise invalid(kind, obj["metadata"].get("name") or "", faults)

    def _refuse_large(self, obj: Object, sent: int) -> None:
        """Measure what etcd would store, where what was sent and what was there come near its limit at all."""
        if sent * 2 < self._etcd_limit:
            return
        size = len(to_json(obj))
        if size > self._etcd_limit:
            raise too_large(f"etcdserver: request is too large: {size} bytes, the limit is {self._etcd_limit}")

    def update(self, route: Route, query: Query, headers: Headers, body: bytes | None) -> Response:
        """Replace an object, or its status."""
        obj = decode_object(route, body)
        entry = self._existing(route)
        obj = _decoded(route, query, obj, body)
        wanted = obj["metadata"].get("name") or route.name
        if wanted != route.name:
            raise bad_request(f"the name of the object ({wanted}) does not match the name on the URL ({route.name})")
        return self._change(entry, obj, route.subresource, manager_name(query, headers), sent=len(body or b""), dry=_is_dry(query))

    def patch(self, route: Route, query: Query, headers: Headers, body: bytes | None) -> Response:
        """Change an object in one of the four ways in which a patch can be written."""
        media = media_type(headers)
        if media == "application/apply-patch+yaml":
            return self._apply(route, query, body)
        content = decode(body)
        entry = self._existing(route)
        whole = entry.whole()
        if media == "application/json-patch+json":
            changed = patches.json_patch(whole, content)
        elif media == "application/merge-patch+json":
            changed = patches.merge(whole, content)
        elif media == "application/strategic-merge-patch+json" and route.kind in BUILT_IN:
            changed = patches.strategic_merge(whole, content)
        else:
            # Of a custom kind nobody knows how its lists merge, so a strategic merge patch is an unknown format too.
            raise unreadable(f"the body of the request was in an unknown format: {media}")
        if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
            raise bad_request("the patch does not leave an object")
        check_kind(route.kind, changed)
        if changed["metadata"].get("name") != entry.name:
            raise bad_request("the name of the object does not match the name on the URL")
        obj = {key: value for key, value in changed.items() if key not in ("kind", "apiVersion")}
        obj = _decoded(route, query, obj, body)
        return self._change(entry, obj, route.subresource, manager_name(query, headers), sent=len(body or b""), dry=_is_dry(query))

    def _apply(self, route: Route, query: Query, body: bytes | None) -> Response:
        obj = decode_object(route, body, as_yaml=True)
        if obj["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        check_declared(route.kind, obj, f"{route.namespace}/{route.name}")
        obj = _decoded(route, query, obj, body)
        obj["metadata"].setdefault("name", route.name)
        if obj["metadata"]["name"] != route.name:
            raise bad_request("the name of the object does not match the name on the URL")
        manager, kind, now = query.get("fieldManager", ""), route.kind, self._world.timestamp
        entry = self._store.get(kind, route.namespace, route.name)
        if entry is None:
            wanted_uid = obj["metadata"].get("uid")
            if wanted_uid:
                raise conflict(
                    kind,
                    route.name,
                    f"uid mismatch: the provided object specified uid {wanted_uid}, and no existing object was found",
                )
            if not manager:
                apply({"metadata": {}}, {}, manager=manager, force=False, api_version=kind.api_version, time=now)
            owners = Owners({})
            owners.set_applier(manager, set(owned_leaves(obj)), api_version=kind.api_version, time=now)
            return self._create(route, obj, owners, sent=len(body or b""), dry=_is_dry(query))
        applied = {**obj, "status": obj["status"]} if route.subresource == "status" and "status" in obj else obj
        force = query.get("force", "").lower() in ("true", "1")
        self._refuse_precondition(entry, applied)
        merged = apply(entry.obj, applied, manager=manager, force=force, api_version=kind.api_version, time=now)
        return self._change(entry, merged, route.subresource, None, sent=len(body or b""), dry=_is_dry(query))

    def _existing(self, route: Route) -> Entry:
        entry = self._store.get(route.kind, route.namespace, route.name)
        if entry is None:
            raise not_found(route.kind, route.name)
        return entry

    def _refuse_precondition(self, entry: Entry, obj: Object) -> None:
        metadata, current = obj["metadata"], entry.obj["metadata"]
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        if uid and uid != current["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current['uid']}"
            raise conflict(entry.kind, entry.name, why)
        if version and version != current["resourceVersion"]:
            raise conflict(entry.kind, entry.name, MODIFIED)

    def _change(self, entry: Entry, obj: Object, subresource: str, manager: str | None, *, sent: int, dry: bool) -> Response:
        """Check a wanted state against the current one and store it; a state that changes nothing costs no version."""
        self._refuse_precondition(entry, obj)
        wanted = self._confined(entry, obj, subresource)
        if wanted == entry.obj:
            return Response(status=200, body=entry.document)
        if not subresource:
            self._refuse_faults(entry.kind, wanted)
            causes = list(changes_refused(entry.kind, entry.obj, wanted))
            if causes:
                raise invalid(entry.kind, entry.name, causes)
        wanted["metadata"] = self._next_metadata(entry, wanted, manager)
        self._refuse_large(wanted, sent + len(entry.body))
        if dry:
            return Response(status=200, body=entry.kind.prefix + to_json(wanted)[1:])
        stored = self._store.replace(entry, wanted)
        self._deletion.settle(stored)
        return Response(status=200, body=stored.document)

    def _confined(self, entry: Entry, obj: Object, subresource: str) -> Object:
        """The wanted state with everything that this kind of write cannot change as it is."""
        current = entry.obj
        if subresource == "status":
            return {**current, "status": obj.get("status") or {}}
        metadata = {key: value for key, value in obj["metadata"].items() if value is not None}
        for field in (*_SERVER_METADATA, "generation", "resourceVersion"):
            if field in current["metadata"]:
                metadata[field] = current["metadata"][field]
            else:
                metadata.pop(field, None)
        if "managedFields" not in metadata and "managedFields" in current["metadata"]:
            metadata["managedFields"] = current["metadata"]["managedFields"]
        wanted = self._defaults.refill(entry.kind, {**obj, "metadata": metadata})
        if "status" in entry.kind.subresources:
            wanted["status"] = current.get("status") or {}
        if entry.kind.kind == "Pod" and "nodeName" in current["spec"]:
            wanted["spec"] = {**wanted["spec"], "nodeName": current["spec"]["nodeName"]}
        return wanted

    def _next_metadata(self, entry: Entry, wanted: Object, manager: str | None) -> Object:
        metadata: Object = dict(wanted["metadata"])
        if _counts(entry.kind) and wanted.get("spec") != entry.obj.get("spec"):
            metadata["generation"] = entry.obj["metadata"].get("generation", 0) + 1
        if manager is not None:
            owners = Owners(entry.obj["metadata"])
            api_version, now = entry.kind.api_version, self._world.timestamp
            if owners.appliers():
                before, after = owned_leaves(entry.obj), owned_leaves(wanted)
                changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
                owners.disown(changed, api_version=api_version, time=now)
            owners.set_other(manager, api_version=api_version, time=now)
            metadata["managedFields"] = owners.entries
        return metadata


def _counts(kind: Kind) -> bool:
    return kind.kind in _COUNTED or kind not in BUILT_IN


def _decoded(route: Route, query: Query, obj: Object, body: bytes | None) -> Object:
    # A null is written as such in JSON; YAML has other ways, but is read only where nobody sends JSON.
    if body is not None and (b"null" in body or not body.lstrip().startswith((b"{", b"["))):
        obj = without_nulls(obj)
    return decoded(route.kind, obj, strict=query.get("fieldValidation") == "Strict")


def _is_dry(query: Query) -> bool:
    return query.get("dryRun", "") not in ("", "[]")
