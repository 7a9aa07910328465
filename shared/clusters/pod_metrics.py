"""What the pods of one Job use, as the metrics server samples it; a cluster without one is told of and is no error.

https://github.com/kubernetes-sigs/metrics-server: it is an API of its own behind the API server, samples every 15 seconds, and has a first
sample of a pod some 30 seconds after its start and none of one that has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import ApiError, MissingError
from shared.clusters.job_pods import pod_selector
from shared.clusters.kinds import POD_METRICS
from shared.clusters.listing import whole_list
from shared.clusters.observed import Document
from shared.clusters.quantities import QuantityError, parse_quantity
from shared.errors import UnavailableError

ABSENT: Final = "this cluster has no metrics server: it does not serve metrics.k8s.io"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerUsage:
    """What one container uses: CPU in thousandths of a core, rounded up as `kubectl top` does, memory in bytes."""

    name: str
    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """Containers' usage by pod name. `unavailable` says why there is none of any pod; None where the metrics server answered."""

    pods: Mapping[str, Sequence[ContainerUsage]]
    unavailable: str | None = None


async def samples_of(api: KubernetesApi, job: Document) -> Samples:
    """The samples of the pods that the Job's selector finds. One request for each 500. A cluster's failure is told, not raised."""
    path = POD_METRICS.path(job["metadata"]["namespace"])
    pods: dict[str, Sequence[ContainerUsage]] = {}
    try:
        async for sample in whole_list(api, path, {"labelSelector": pod_selector(job)}):
            pods[sample["metadata"]["name"]] = [_usage(container) for container in sample.get("containers") or ()]
    except MissingError:
        return Samples(pods={}, unavailable=ABSENT)
    except (ApiError, UnavailableError) as error:
        return Samples(pods={}, unavailable=f"metrics.k8s.io does not answer: {error}")
    return Samples(pods=pods)


def _usage(container: Document) -> ContainerUsage:
    usage: Document = container.get("usage") or {}
    return ContainerUsage(
        name=container["name"],
        cpu_millicores=_whole(_amount(usage, "cpu") * 1000),
        memory_bytes=_whole(_amount(usage, "memory")),
    )


def _amount(usage: Mapping[str, Any], resource: str) -> Decimal:
    """A cluster's own amounts are quantities; what is none counts as nothing."""
    try:
        return parse_quantity(usage.get(resource, 0))
    except QuantityError:
        return Decimal(0)


def _whole(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))
