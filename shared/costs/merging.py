"""Several tellings of the same nodes and pods, put together to one of each.

Two observers may watch one cluster, and each hour tells anew of what was there before it. They tell of the same objects by UID, and each
may know a part only: one came late and another went early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from shared.costs.model import NodeUsage, PodUsage

T = TypeVar("T", NodeUsage, PodUsage)


def merge_nodes(told: Iterable[NodeUsage]) -> list[NodeUsage]:
    """One telling of each node, by UID: the earliest start, the latest end that is known, the largest capacity.

    A GPU node joins without GPUs, which its device plugin tells of a while later; it is paid for with them from its start.
    """
    return _merged(told, _both_nodes)


def merge_pods(told: Iterable[PodUsage]) -> list[PodUsage]:
    """One telling of each pod, by UID: the earliest start, the latest end that is known, and the most labels.

    An observer of an earlier release beside this one knows neither its name nor the labels of its Job.
    """
    return _merged(told, _both_pods)


def renewed_node(known: NodeUsage, told: NodeUsage) -> NodeUsage:
    """What is known of a node and what is newly told of it: the news say whether it has ended, and nothing that it had is lost."""
    return replace(_both_nodes(known, told), end=told.end)


def renewed_pod(known: PodUsage, told: PodUsage) -> PodUsage:
    """The same of a pod, of which nothing else can change."""
    return told if told.start <= known.start else replace(told, start=known.start)


def _merged(told: Iterable[T], both: Callable[[T, T], T]) -> list[T]:
    found: dict[str, T] = {}
    for one in told:
        standing = found.get(one.uid)
        found[one.uid] = one if standing is None else both(standing, one)
    return list(found.values())


def _both_nodes(first: NodeUsage, second: NodeUsage) -> NodeUsage:
    return replace(
        first,
        start=min(first.start, second.start),
        end=_end(first.end, second.end),
        zone=first.zone or second.zone,
        instance_type=first.instance_type or second.instance_type,
        cores=max(first.cores, second.cores),
        memory_bytes=max(first.memory_bytes, second.memory_bytes),
        gpus=max(first.gpus, second.gpus),
    )


def _both_pods(first: PodUsage, second: PodUsage) -> PodUsage:
    start, end = min(first.start, second.start), _end(first.end, second.end)
    labels = max(first.labels, second.labels, key=len)
    return replace(first, start=start, end=end, job_name=first.job_name or second.job_name, labels=labels)


def _end(first: datetime | None, second: datetime | None) -> datetime | None:
    """Who saw the end knows more than who didn't."""
    if first is None or second is None:
        return first or second
    return max(first, second)
