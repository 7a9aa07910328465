"""The three feeds that an observer follows: the fleet's Jobs, their pods, and the nodes of the cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.kinds import JOB, NODE, POD
from shared.clusters.nodes import NodeView, node_view
from shared.clusters.observed import Document, observed
from shared.clusters.pods import PodView, pod_view
from shared.clusters.usage import node_usage, pod_usage
from shared.clusters.watch import Feed
from shared.costs.model import PodUsage
from shared.jobs.ports import Observed

OURS: Final = f"{names.MANAGED}=true"
OTHERS: Final = f"{names.MANAGED}!=true"


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """Of which region and cluster the objects of a feed are; they don't say so themselves."""

    region: str
    cluster: str


def job_feed(api: KubernetesApi) -> Feed[Observed]:
    """The fleet's Jobs in all namespaces."""
    return Feed(api, JOB, observed, selector=OURS)


def pod_feed(api: KubernetesApi, *, usage: Where | None = None) -> Feed[PodView]:
    """The pods of the fleet's Jobs in all namespaces; with what they ask for, where `usage` says of which cluster they are."""
    return Feed(api, POD, pod_view if usage is None else partial(_pod_with_usage, usage), selector=OURS)


def node_feed(api: KubernetesApi, *, usage: Where | None = None) -> Feed[NodeView]:
    """The nodes, likewise. Their leases are objects of their own, so a quiet node sends a change only every five minutes."""
    return Feed(api, NODE, node_view if usage is None else partial(_node_with_usage, usage))


def other_pod_feed(api: KubernetesApi, usage: Where) -> Feed[PodUsage]:
    """What all pods that aren't the fleet's ask for."""
    return Feed(api, POD, partial(_pod_usage, usage), selector=OTHERS)


def _pod_with_usage(where: Where, pod: Document) -> PodView | None:
    return pod_view(pod, usage=_pod_usage(where, pod))


def _node_with_usage(where: Where, node: Document) -> NodeView:
    return replace(node_view(node), usage=node_usage(node, region=where.region, cluster=where.cluster))


def _pod_usage(where: Where, pod: Document) -> PodUsage | None:
    return pod_usage(pod, region=where.region, cluster=where.cluster)
