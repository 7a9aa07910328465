"""metrics.k8s.io: what pods and nodes use, as a metrics server samples it.

Nothing is measured, since nothing runs: each container uses a share of what it requests that follows from its pod's UID and the time, so
that equal clusters give equal answers. See https://github.com/kubernetes-sigs/metrics-server, pkg/api.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from zlib import crc32

from workers.local.cluster.answers import Response, not_allowed, not_found
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object, rfc3339, to_json
from workers.local.cluster.parameters import is_true
from workers.local.cluster.resources import Amounts, container_requests
from workers.local.cluster.routes import Route
from workers.local.cluster.selectors import Selector
from workers.local.cluster.store import Entry
from workers.local.cluster.world import World

GROUP = "metrics.k8s.io"
KINDS = (
    Kind(kind="NodeMetrics", plural="nodes", group=GROUP, version="v1beta1", namespaced=False, verbs=("get", "list")),
    Kind(kind="PodMetrics", plural="pods", group=GROUP, version="v1beta1", verbs=("get", "list")),
)
_RESOLUTION = 15
"""Seconds between two samples; metrics-server, --metric-resolution."""
_SYSTEM: Amounts = {"cpu": 120, "memory": 700 * 1024**2}
"""What a node uses without any pod: kubelet, container runtime, daemons."""
_UNASKED: Amounts = {"cpu": 40, "memory": 64 * 1024**2}
"""What a container is taken to request that requests nothing."""


class Usage:
    """Answers for the metrics server. `started` says when the present run of a pod's containers began; None where none runs."""

    def __init__(self, world: World, *, started: Callable[[str], float | None]) -> None:
        self._world = world
        self._started = started

    def answer(self, method: str, route: Route, query: Mapping[str, str]) -> Response:
        """One object or a list of them. Pages and watches are not offered, as by the real one."""
        if method != "GET" or is_true(query, "watch"):
            raise not_allowed()
        found = self._pods(route, query) if route.kind.kind == "PodMetrics" else self._nodes(route, query)
        if route.name:
            return self._one(route, next(found, None))
        listed = {"kind": f"{route.kind.kind}List", "apiVersion": route.kind.api_version, "metadata": {}, "items": list(found)}
        return Response(status=200, body=to_json(listed))

    def _one(self, route: Route, found: Object | None) -> Response:
        if found is None:
            raise not_found(route.kind, f"{route.namespace}/{route.name}" if route.namespace else route.name)
        return Response(status=200, body=route.kind.prefix + to_json(found)[1:])

    def _pods(self, route: Route, query: Mapping[str, str]) -> Iterator[Object]:
        for pod in self._entries(self._world.pods, route, query):
            containers = self._containers(pod)
            if containers:
                usage = [{"name": name, "usage": _quantities(amounts)} for name, amounts in containers.items()]
                yield {**self._sample(pod), "containers": usage}

    def _nodes(self, route: Route, query: Mapping[str, str]) -> Iterator[Object]:
        for node in self._entries(self._world.nodes, route, query):
            used = dict(_SYSTEM)
            for pod in self._world.store.select(self._world.pods, "", Selector(self._world.pods, fields=f"spec.nodeName={node.name}")):
                for amounts in self._containers(pod).values():
                    for resource, amount in amounts.items():
                        used[resource] += amount
            yield {**self._sample(node), "usage": _quantities(used)}

    def _entries(self, kind: Kind, route: Route, query: Mapping[str, str]) -> list[Entry]:
        if route.name:
            entry = self._world.store.get(kind, route.namespace, route.name)
            return [entry] if entry is not None else []
        selector = Selector(kind, labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", ""))
        return self._world.store.select(kind, route.namespace, selector)

    def _sample(self, about: Entry) -> Object:
        now = self._world.agenda.now
        place = {"namespace": about.namespace} if about.namespace else {}
        labels = about.obj["metadata"].get("labels")
        return {
            "metadata": {
                "name": about.name,
                **place,
                "creationTimestamp": rfc3339(now),
                **({"labels": labels} if labels else {}),
            },
            "timestamp": rfc3339(now // _RESOLUTION * _RESOLUTION),
            "window": f"{_RESOLUTION}s",
        }

    def _containers(self, pod: Entry) -> dict[str, Amounts]:
        """What each container of a pod uses; nothing before the first sample and when it runs no more."""
        started, now = self._started(pod.uid), self._world.agenda.now
        if pod.obj["status"].get("phase") != "Running" or started is None or now - started < self._world.pace.first_sample:
            return {}
        return {
            container["name"]: _used(container_requests(container), f"{pod.uid}/{container['name']}", int(now // _RESOLUTION))
            for container in pod.obj["spec"]["containers"]
        }


def _used(requests: Amounts, key: str, sample: int) -> Amounts:
    """From a third to nine tenths of what is requested; memory is steadier than CPU."""
    return {
        "cpu": int((requests.get("cpu") or _UNASKED["cpu"]) * (0.35 + 0.35 * _share(key) + 0.2 * _share(f"{key}/{sample}"))),
        "memory": int((requests.get("memory") or _UNASKED["memory"]) * (0.4 + 0.4 * _share(f"{key}/memory"))),
    }


def _share(text: str) -> float:
    """A number from 0 to 1 that is the same for the same text."""
    return crc32(text.encode()) / 0xFFFFFFFF


def _quantities(amounts: Amounts) -> dict[str, str]:
    """In the units in which a metrics server answers."""
    return {"cpu": f"{amounts['cpu'] * 1_000_000}n", "memory": f"{amounts['memory'] // 1024}Ki"}
