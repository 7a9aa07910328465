"""Which node a pod was on. A pod says only the node's name, and a name may be given again when its node is gone."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from shared.costs.model import NodeUsage, PodUsage


def pods_by_node(nodes: Iterable[NodeUsage], pods: Iterable[PodUsage]) -> dict[str | None, list[PodUsage]]:
    """The pods by the UID of their node; under None those whose node isn't known.

    Of several nodes of a name, it is the last that had begun when the pod began and had not ended; else the next to come, for the clocks of
    a node and of the API server differ by a little; else the last of all. What is chosen doesn't depend on any window.
    """
    named: dict[tuple[str, str], list[NodeUsage]] = defaultdict(list)
    for node in nodes:
        named[node.cluster, node.name].append(node)
    for those in named.values():
        those.sort(key=lambda node: node.start)
    found: dict[str | None, list[PodUsage]] = defaultdict(list)
    for pod in pods:
        found[_node_of(pod, named.get((pod.cluster, pod.node), ()))].append(pod)
    return dict(found)


def _node_of(pod: PodUsage, nodes: Sequence[NodeUsage]) -> str | None:
    if not nodes:
        return None
    following = bisect_right([node.start for node in nodes], pod.start)
    last = nodes[following - 1] if following else None
    if last is not None and (last.end is None or last.end > pod.start):
        return last.uid
    return nodes[following].uid if following < len(nodes) else nodes[-1].uid
