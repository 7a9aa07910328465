"""Get, list and watch."""

from __future__ import annotations

import base64
import binascii
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from workers.local.cluster.answers import RefusedError, Response, Stream, bad_request, expired, not_found
from workers.local.cluster.objects import to_json
from workers.local.cluster.parameters import is_true, number_in
from workers.local.cluster.routes import Route
from workers.local.cluster.selectors import Selector
from workers.local.cluster.store import Entry
from workers.local.cluster.watching import open_watch
from workers.local.cluster.world import World

# etcd is compacted every five minutes; a continue token doesn't outlive that.
_TOKEN_LIFE = 300.0
# Lists that clients have begun and not finished; each holds references only.
_UNFINISHED_LISTS = 256


class Reading:
    """Answers what changes nothing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._unfinished: OrderedDict[str, tuple[float, int, list[Entry]]] = OrderedDict()
        self._list_count = 0

    def get(self, route: Route) -> Response:
        """One object."""
        entry = self._store.get(route.kind, route.namespace, route.name)
        if entry is None:
            raise not_found(route.kind, route.name)
        return Response(status=200, body=entry.document)

    def list_or_watch(self, route: Route, query: Mapping[str, str]) -> Response | Stream:
        """A list of a kind, whole or in pages, or a watch of it."""
        selector = Selector(route.kind, labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", ""))
        if not is_true(query, "watch"):
            return self._list(route, selector, query)
        return open_watch(
            kind=route.kind,
            namespace=route.namespace,
            selector=selector,
            query=query,
            store=self._store,
            agenda=self._world.agenda,
            randomness=self._world.randomness,
        )

    def _list(self, route: Route, selector: Selector, query: Mapping[str, str]) -> Response:
        limit = number_in(query, "limit") or 0
        token = query.get("continue")
        if token:
            version, entries, start = self._resume(token)
        else:
            version, entries, start = self._store.version, self._store.select(route.kind, route.namespace, selector), 0
            self._refuse_future(number_in(query, "resourceVersion") or 0)
        page = entries[start : start + limit] if limit else entries[start:]
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        left = len(entries) - start - len(page)
        if left > 0:
            metadata["continue"] = self._remember(token, version, entries, start + len(page))
            if selector.empty:
                metadata["remainingItemCount"] = left
        head = to_json({"kind": f"{route.kind.kind}List", "apiVersion": route.kind.api_version, "metadata": metadata})
        return Response(status=200, body=head[:-1] + b',"items":[' + b",".join([entry.body for entry in page]) + b"]}")

    def _refuse_future(self, version: int) -> None:
        if version > self._store.version:
            message = f"Too large resource version: {version}, current: {self._store.version}"
            raise RefusedError(504, "Timeout", message, retry_after=1, details={"retryAfterSeconds": 1})

    def _remember(self, token: str | None, version: int, entries: list[Entry], start: int) -> str:
        if token:
            name = _read_token(token)["list"]
        else:
            self._list_count += 1
            name = str(self._list_count)
            self._unfinished[name] = (self._world.agenda.now, version, entries)
            if len(self._unfinished) > _UNFINISHED_LISTS:
                self._unfinished.popitem(last=False)
        return base64.urlsafe_b64encode(to_json({"v": "meta.k8s.io/v1", "rv": version, "list": name, "start": start})).decode()

    def _resume(self, token: str) -> tuple[int, list[Entry], int]:
        content = _read_token(token)
        found = self._unfinished.get(content["list"])
        if found is None or self._world.agenda.now - found[0] > _TOKEN_LIFE:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list "
                "without the continue parameter."
            )
        return found[1], found[2], int(content["start"])

    def forget_unfinished(self) -> None:
        """Let every continue token be too old, as after a compaction."""
        self._unfinished.clear()


def _read_token(token: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token.encode()))
        return {"list": str(content["list"]), "start": int(content["start"])}
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise bad_request("continue key is not valid") from error
