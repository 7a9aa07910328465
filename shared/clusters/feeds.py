"""The three feeds that an observer follows: the fleet's Jobs, their pods, and the nodes of the cluster."""

from __future__ import annotations

from typing import Final

from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.kinds import JOB, NODE, POD
from shared.clusters.nodes import NodeView, node_view
from shared.clusters.observed import observed
from shared.clusters.pods import PodView, pod_view
from shared.clusters.watch import Feed
from shared.jobs.ports import Observed

OURS: Final = f"{names.MANAGED}=true"


def job_feed(api: KubernetesApi) -> Feed[Observed]:
    """The fleet's Jobs in all namespaces."""
    return Feed(api, JOB, observed, selector=OURS)


def pod_feed(api: KubernetesApi) -> Feed[PodView]:
    """The pods of the fleet's Jobs in all namespaces."""
    return Feed(api, POD, pod_view, selector=OURS)


def node_feed(api: KubernetesApi) -> Feed[NodeView]:
    """The nodes. Their leases are objects of their own, so a quiet node sends a change only every five minutes."""
    return Feed(api, NODE, node_view)
