"""Delete one object or a collection, and evict a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.local.cluster.answers import Response, bad_request, conflict, not_found
from workers.local.cluster.bodies import decode
from workers.local.cluster.deletion import BACKGROUND, FOREGROUND, ORPHAN, Deletion, default_policy
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object, to_json
from workers.local.cluster.parameters import number_in
from workers.local.cluster.routes import Route
from workers.local.cluster.selectors import Selector
from workers.local.cluster.store import Entry
from workers.local.cluster.strictness import decoded
from workers.local.cluster.world import World

_OPTIONS = Kind(kind="DeleteOptions", plural="deleteoptions", group="meta", version="v1")
_POLICIES = (FOREGROUND, BACKGROUND, ORPHAN)


class Removing:
    """Answers what deletes."""

    def __init__(self, world: World, deletion: Deletion) -> None:
        self._store = world.store
        self._deletion = deletion

    def delete(self, route: Route, query: Mapping[str, str], body: bytes | None) -> Response:
        """Start to delete an object. The answer is the object while it lasts, and a `Status` when it is gone."""
        options = _options(query, body)
        entry = self._store.get(route.kind, route.namespace, route.name)
        if entry is None:
            raise not_found(route.kind, route.name)
        _refuse_precondition(entry, options.get("preconditions") or {})
        if options.get("dryRun"):
            return Response(status=200, body=entry.document)
        left = self._delete(entry, options)
        if left is not None:
            return Response(status=200, body=left.document)
        details = {"name": entry.name, **({"group": entry.kind.group} if entry.kind.group else {}), "kind": entry.kind.plural}
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {**details, "uid": entry.uid},
        }
        return Response(status=200, body=to_json(status))

    def delete_collection(self, route: Route, query: Mapping[str, str], body: bytes | None) -> Response:
        """Start to delete everything that is selected; the answer lists it as it was."""
        options = _options(query, body)
        selector = Selector(route.kind, labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", ""))
        entries = self._store.select(route.kind, route.namespace, selector)
        head = {"kind": f"{route.kind.kind}List", "apiVersion": route.kind.api_version}
        listed: dict[str, Any] = {**head, "metadata": {"resourceVersion": str(self._store.version)}}
        listed["items"] = [entry.obj for entry in entries]
        if not options.get("dryRun"):
            for entry in entries:
                self._delete(entry, options)
        return Response(status=200, body=to_json(listed))

    def _delete(self, entry: Entry, options: Object) -> Entry | None:
        policy = options.get("propagationPolicy") or default_policy(entry.kind)
        if policy not in _POLICIES:
            raise bad_request(f'DeleteOptions is invalid: propagationPolicy: Unsupported value: "{policy}"')
        grace = options.get("gracePeriodSeconds")
        return self._deletion.delete(entry, policy=policy, grace=None if grace is None else float(grace))


def _options(query: Mapping[str, str], body: bytes | None) -> Object:
    """The `DeleteOptions` of the body, with those of the query."""
    content = decode(body)
    if not isinstance(content, dict):
        raise bad_request("the body must be DeleteOptions")
    sent = {"kind": "DeleteOptions", "apiVersion": "v1", **content}
    options: Object = {key: value for key, value in decoded(_OPTIONS, sent, strict=False).items() if value is not None}
    if query.get("propagationPolicy"):
        options["propagationPolicy"] = query["propagationPolicy"]
    grace = number_in(query, "gracePeriodSeconds")
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if query.get("dryRun"):
        options["dryRun"] = [query["dryRun"]]
    if "orphanDependents" in options and "propagationPolicy" not in options:
        options["propagationPolicy"] = ORPHAN if options["orphanDependents"] else BACKGROUND
    return options


def _refuse_precondition(entry: Entry, preconditions: Object) -> None:
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    if uid and uid != entry.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {entry.uid}"
        raise conflict(entry.kind, entry.name, why)
    if version and version != str(entry.version):
        why = f"Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {entry.version}"
        raise conflict(entry.kind, entry.name, why)
