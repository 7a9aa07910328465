"""Exporters of GPU metrics: a pod on every node with GPUs, as its DaemonSet would put one there, which is reached through the pod proxy.

They take identifiers of their own, and no place of anybody's, so that a cluster with them is in all else the same as one without.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from workers.local.cluster import exporter_texts
from workers.local.cluster.answers import RefusedError, Response, Stream, not_allowed, not_found
from workers.local.cluster.exporter_texts import Holding, Slot, board_of
from workers.local.cluster.objects import Object
from workers.local.cluster.randomness import Randomness
from workers.local.cluster.resources import container_requests
from workers.local.cluster.selectors import Selector
from workers.local.cluster.steering import PREFIX
from workers.local.cluster.store import ADDED, Change, Entry
from workers.local.cluster.world import World

_PROXY: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/(?:http:)?([^/:]+)(?::([^/]*))?/proxy(/.*)?")
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Make:
    """How the exporter of a make is installed by its maker's chart or operator."""

    namespace: str
    name: str
    image: str
    labels: Mapping[str, str]
    port: int
    port_name: str


_MAKES: Final = {
    "nvidia.com/gpu": _Make(
        namespace="gpu-operator",
        name="nvidia-dcgm-exporter",
        image="nvidia/dcgm-exporter:4.4.1-4.6.0-ubuntu22.04",
        labels={"app": "nvidia-dcgm-exporter", "app.kubernetes.io/component": "nvidia-dcgm-exporter"},
        port=9400,
        port_name="metrics",
    ),
    "amd.com/gpu": _Make(
        namespace="kube-amd-gpu",
        name="metrics-exporter",
        image="rocm/device-metrics-exporter:v1.4.0",
        labels={"app.kubernetes.io/name": "metrics-exporter", "app.kubernetes.io/component": "amd-gpu"},
        port=5000,
        port_name="exporter-port",
    ),
}
NAMESPACES: Final = tuple(make.namespace for make in _MAKES.values())


class Exporters:
    """Puts the pods there and answers for them. `answers` stand in, by node, for what an exporter would say: for tests."""

    def __init__(self, world: World, *, seed: int, started: Callable[[str], float | None]) -> None:
        self._world = world
        self._started = started
        self._randomness = Randomness(seed, f"{world.name}/exporters")
        self._pods: dict[str, str] = {}
        self._given: dict[str, dict[int, str]] = {}
        self.answers: dict[str, Callable[[], Response | Stream]] = {}
        world.store.on_change(world.nodes, self._see)

    def is_one(self, uid: str) -> bool:
        """Whether a pod is an exporter's."""
        return uid in self._pods

    def _see(self, change: Change) -> None:
        resource = _resource(change.new)
        if change.type == ADDED and resource is not None:
            self._put(change.new, resource)

    def _put(self, node: Entry, resource: str) -> None:
        world, make = self._world, _MAKES[resource]
        uid = self._randomness.uid()
        self._pods[uid] = resource
        container = {
            "name": make.name,
            "image": make.image,
            "imagePullPolicy": "IfNotPresent",
            "ports": [{"name": make.port_name, "containerPort": make.port, "protocol": "TCP"}],
            "resources": {},
        }
        world.store.create(
            world.pods,
            {
                "metadata": {
                    "name": f"{make.name}-{self._randomness.suffix()}",
                    "namespace": make.namespace,
                    "uid": uid,
                    "creationTimestamp": world.timestamp,
                    "labels": dict(make.labels),
                    "annotations": {f"{PREFIX}hang": "true"},
                },
                "spec": {
                    "containers": [container],
                    "nodeName": node.name,
                    "restartPolicy": "Always",
                    "tolerations": [{"operator": "Exists"}],
                    "terminationGracePeriodSeconds": 30,
                    "schedulerName": "default-scheduler",
                },
                "status": {"phase": "Pending", "qosClass": "BestEffort"},
            },
        )

    def answer(self, method: str, path: str) -> Response | Stream | None:
        """What a pod says through the proxy; None for a path that isn't the proxy's."""
        found = _PROXY.fullmatch(path)
        if found is None:
            return None
        namespace, name, port, rest = found.groups()
        if method != "GET":
            raise not_allowed()
        pod = self._world.store.get(self._world.pods, namespace, name)
        if pod is None:
            raise not_found(self._world.pods, name)
        resource = self._pods.get(pod.uid)
        make = _MAKES.get(resource or "")
        if make is None or resource is None or self._started(pod.uid) is None or port not in (str(make.port), make.port_name):
            raise RefusedError(503, "ServiceUnavailable", "error trying to reach service: dial tcp: connect: connection refused")
        node = self._world.store.get(self._world.nodes, "", pod.obj["spec"]["nodeName"])
        if node is None or rest != "/metrics":
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        instead = self.answers.get(node.name)
        return instead() if instead is not None else self._metrics(node, resource)

    def _metrics(self, node: Entry, resource: str) -> Response:
        slots, now = self._slots(node, resource), self._world.agenda.now
        text = exporter_texts.nvidia(slots, now=now) if resource == "nvidia.com/gpu" else exporter_texts.amd(slots, now=now)
        return Response(status=200, headers=exporter_texts.TEXT, body=text.encode())

    def _slots(self, node: Entry, resource: str) -> list[Slot]:
        """The node's GPUs. One is given to a pod when it is first seen there, and stays with it until the pod is gone or has ended."""
        count = int(node.obj["status"]["capacity"][resource])
        board = board_of(node.obj["metadata"]["labels"].get(_INSTANCE_TYPE, ""), resource)
        wanted = {pod.uid: (pod, number, container) for pod, number, container in self._holders(node.name, resource)}
        given = {index: uid for index, uid in self._given.get(node.name, {}).items() if uid in wanted and index < count}
        self._given[node.name] = given
        for uid, (_, number, _) in wanted.items():
            free = [index for index in range(count) if index not in given]
            missing = number - sum(holder == uid for holder in given.values())
            given |= dict.fromkeys(free[: max(missing, 0)], uid)
        held = {index: self._holding(wanted[uid][0], wanted[uid][2]) for index, uid in given.items()}
        return [Slot(cluster=self._world.name, node=node.name, index=index, board=board, holding=held.get(index)) for index in range(count)]

    def _holders(self, node: str, resource: str) -> list[tuple[Entry, int, str]]:
        """The pods on a node that have not ended and hold GPUs, in the order in which they started: how many, and in which container."""
        found = []
        pods = self._world.store.select(self._world.pods, "", Selector(self._world.pods, fields=f"spec.nodeName={node}"))
        for pod in sorted(pods, key=lambda pod: (self._started(pod.uid) or math.inf, pod.namespace, pod.name)):
            if pod.obj["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            asked = {one["name"]: container_requests(one).get(resource, 0) for one in pod.obj["spec"]["containers"]}
            if any(asked.values()):
                found.append((pod, sum(asked.values()), next(name for name, number in asked.items() if number)))
        return found

    def _holding(self, pod: Entry, container: str) -> Holding:
        busy = self._started(pod.uid) is not None
        return Holding(namespace=pod.namespace, pod=pod.name, uid=pod.uid, container=container, busy=busy)


def _resource(node: Entry) -> str | None:
    capacity: Object = node.obj["status"].get("capacity") or {}
    return next((resource for resource in _MAKES if resource in capacity), None)
