"""The nodes of a cluster: they come up, are interrupted as spot capacity is, and are replaced."""

from __future__ import annotations

from collections.abc import Sequence

from workers.local.cluster.kubelet import Kubelet
from workers.local.cluster.node_shapes import NodeShape, node_labels, node_resources, node_spec
from workers.local.cluster.objects import Object
from workers.local.cluster.selectors import Selector
from workers.local.cluster.store import Entry
from workers.local.cluster.world import World

_COMPONENT = "node-controller"
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)
_SYSTEM: Object = {
    "architecture": "amd64",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kernelVersion": "6.12.40-64.114.amzn2023.x86_64",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.36.0",
    "operatingSystem": "linux",
    "osImage": "Amazon Linux 2023",
}
_DISRUPTED: Object = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


class Machines:
    """Owns the node objects."""

    def __init__(self, world: World, kubelet: Kubelet, shapes: Sequence[NodeShape]) -> None:
        self._world = world
        self._kubelet = kubelet
        self._shapes = {shape.name: (number, shape) for number, shape in enumerate(shapes)}
        for shape in shapes:
            self._bring_up(shape.name)

    def _bring_up(self, name: str) -> None:
        world = self._world
        number, shape = self._shapes[name]
        if world.store.get(world.nodes, "", name) is not None:
            return
        zone = shape.zone or f"{world.region}{'abc'[number % 3]}"
        resources, now = node_resources(shape), world.timestamp
        conditions = [
            {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind, status, reason in _CONDITIONS
        ]
        node = world.store.create(
            world.nodes,
            {
                "metadata": world.metadata(name=name, labels=node_labels(shape, region=world.region, zone=zone)),
                "spec": node_spec(shape),
                "status": {
                    "capacity": resources,
                    "allocatable": resources,
                    "conditions": conditions,
                    "addresses": [{"type": "Hostname", "address": name}],
                    "nodeInfo": {
                        **_SYSTEM,
                        "machineID": name,
                        "systemUUID": world.randomness.uid(),
                        "bootID": world.randomness.uid(),
                    },
                },
            },
        )
        world.events.record(node, reason="NodeReady", message=f"Node {name} status is now: NodeReady", component="kubelet")

    def interrupt(self, name: str, *, reason: str, back_after: float | None) -> None:
        """Take a node away as a spot interruption does. Raises KeyError for a node that isn't there."""
        world = self._world
        node = world.store.get(world.nodes, "", name)
        if node is None:
            raise KeyError(name)
        spec = node.obj["spec"]
        taints = [taint for taint in spec.get("taints") or () if taint["key"] != _DISRUPTED["key"]]
        cordoned = {**spec, "unschedulable": True, "taints": [*taints, _DISRUPTED]}
        node = world.store.replace(node, {**node.obj, "spec": cordoned})
        message = "Spot interruption: the instance ends soon"
        world.events.record(node, warning=True, reason="SpotInterrupted", message=message, component="karpenter")
        for pod in self._pods_on(name):
            self._kubelet.disrupt(pod, reason=reason)
        world.agenda.after(world.pace.node_notice, lambda: self._take_down(node.uid, back_after))

    def _pods_on(self, name: str) -> list[Entry]:
        return self._world.store.select(self._world.pods, "", Selector(self._world.pods, fields=f"spec.nodeName={name}"))

    def _take_down(self, uid: str, back_after: float | None) -> None:
        world = self._world
        node = world.store.by_uid(uid)
        if node is None:
            return
        for pod in self._pods_on(node.name):
            # What did not go by itself goes with its machine.
            world.store.remove(pod)
        world.events.record(node, reason="RemovingNode", message=f"Removing Node {node.name}", component=_COMPONENT)
        world.store.remove(node)
        if back_after is not None and node.name in self._shapes:
            name = node.name
            world.agenda.after(back_after, lambda: self._bring_up(name))
