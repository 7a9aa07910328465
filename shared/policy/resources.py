"""What a Job would hold of the cluster while it runs, and the rules of resource requests.

The figure that the caps judge is what runs at once: the scheduler's view of one pod, times the pods that run together. Source of the
sum over a pod: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from shared.clusters.label_grammar import is_qualified_name
from shared.clusters.quantities import QuantityError, format_bytes, format_quantity, parse_quantity
from shared.policy.fields import Field
from shared.policy.settings import Policy, setting

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """Cores, bytes and GPUs that something holds at once."""

    cpu: Decimal = Decimal(0)
    memory: Decimal = Decimal(0)
    gpus: Decimal = Decimal(0)

    def plus(self, other: Demand) -> Demand:
        """Both at the same time."""
        return Demand(cpu=self.cpu + other.cpu, memory=self.memory + other.memory, gpus=self.gpus + other.gpus)

    def at_least(self, other: Demand) -> Demand:
        """One after the other: the larger of each."""
        return Demand(cpu=max(self.cpu, other.cpu), memory=max(self.memory, other.memory), gpus=max(self.gpus, other.gpus))

    def times(self, pods: int) -> Demand:
        """So many of it at the same time."""
        return Demand(cpu=self.cpu * pods, memory=self.memory * pods, gpus=self.gpus * pods)


def containers(pod: Field) -> Iterator[Field]:
    """Yield every container of a pod, of whatever sort."""
    for sort in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod[sort].elements()


def pods_at_once(job: Field) -> int:
    """Return how many pods a Job keeps running together: its parallelism, but never more than are left to complete."""
    parallelism, completions = job.within("spec", "parallelism").integer, job.within("spec", "completions").integer
    wanted = 1 if parallelism is None else max(parallelism, 0)
    return wanted if completions is None else min(wanted, max(completions, 0))


def pod_demand(pod: Field, policy: Policy) -> Demand:
    """Return what one pod holds at its peak: all containers beside the sidecars, or an init container beside the sidecars before it."""
    sidecars, peak = Demand(), Demand()
    for container in pod["initContainers"].elements():
        wanted = demand_of(container["resources"], policy)
        if container["restartPolicy"].value == "Always":
            sidecars = sidecars.plus(wanted)
        else:
            peak = peak.at_least(sidecars.plus(wanted))
    steady = sidecars
    for container in pod["containers"].elements():
        steady = steady.plus(demand_of(container["resources"], policy))
    return peak.at_least(steady).at_least(demand_of(pod["resources"], policy))


def check_requests(resources: Field) -> None:
    """Check the requests and limits of one container (or of a whole pod) by the rules of the API server."""
    limits, requests = resources["limits"], resources["requests"]
    for side in (limits, requests):
        for name, field in side.items():
            _check_amount(name, field)
    for name, field in requests.items():
        if not _shareable(name) and not limits[name].given:
            field.refuse("must be given as a limit too: devices and huge pages can't be shared")
        elif limits[name].given:
            _check_pair(name, field, limits[name])


def _check_pair(name: str, request: Field, limit: Field) -> None:
    requested, most = _parsed(request), _parsed(limit)
    if requested is None or most is None:
        return  # the schema tells
    if _shareable(name) and requested > most:
        request.refuse(f"must not be more than the limit, {format_quantity(most)}")
    elif not _shareable(name) and requested != most:
        request.refuse(f"must equal the limit, {format_quantity(most)}: devices and huge pages can't be shared")


def check_caps(pod: Field, times: Field, demand: Demand, pods: int, policy: Policy, *, noun: str = "job") -> Demand:
    """Return what so many pods hold. What is more than the policy allows is refused: one pod at its place, many at that of their number."""
    total = demand.times(pods)
    for what, one, all_pods, cap, shown, key in (
        ("CPU cores", demand.cpu, total.cpu, policy.max_cpu, format_quantity, "max_cpu"),
        ("bytes of memory", demand.memory, total.memory, policy.max_memory, format_bytes, "max_memory"),
        ("GPUs", demand.gpus, total.gpus, Decimal(policy.max_gpus), format_quantity, "max_gpus"),
    ):
        if one > cap:
            pod.refuse(
                f"must ask for at most {shown(cap)} {what} in one {noun}: one pod asks for {shown(one)}; {setting(key)} is the limit"
            )
        elif all_pods > cap:
            times.refuse(
                f"must keep the {noun} at or below {shown(cap)} {what}: {pods} pods at once with {shown(one)} each are {shown(all_pods)}; "
                f"{setting(key)} is the limit"
            )
    return total


def asks_for(requirements: Iterable[Field], resource: str) -> bool:
    """Whether any of some containers, by its requests and limits, asks for some of a resource."""
    return any(_amount(one[side][resource]) > 0 for one in requirements for side in ("limits", "requests"))


def _check_amount(name: str, field: Field) -> None:
    native = name in _NATIVE or name.startswith("hugepages-")
    if not native and ("/" not in name or not is_qualified_name(name)):
        field.refuse("resource must be cpu, memory, ephemeral-storage, hugepages-<size> or a name with a domain, such as nvidia.com/gpu")
    amount = _amount(field)
    if amount < 0:
        field.refuse("must not be negative")
    elif not _shareable(name) and amount != amount.to_integral_value():
        field.refuse("must be a whole number")


def _shareable(name: str) -> bool:
    return name in _NATIVE or ("kubernetes.io/" in name and not name.startswith(("hugepages-", "deviceclass.resource.")))


def demand_of(resources: Field, policy: Policy) -> Demand:
    """Return what one container, by its requests and limits, holds: the limit of each resource, or else the request."""
    limits, requests = resources["limits"], resources["requests"]

    def amount(name: str) -> Decimal:
        return max(Decimal(0), _amount(limits[name] if limits[name].given else requests[name]))

    named = {name for side in (limits, requests) for name, _ in side.items()}
    gpus = sum((amount(name) for name in named if _is_gpu(name, policy)), Decimal(0))
    return Demand(cpu=amount("cpu"), memory=amount("memory"), gpus=gpus)


def _is_gpu(name: str, policy: Policy) -> bool:
    return any(name.startswith(entry[:-1]) if entry.endswith("*") else name == entry for entry in policy.gpu_resources)


def _amount(field: Field) -> Decimal:
    return _parsed(field) or Decimal(0)


def _parsed(field: Field) -> Decimal | None:
    """The value, zero where there is none, or None where there is a wrong one."""
    try:
        return parse_quantity(field.value) if field.given else Decimal(0)
    except QuantityError:
        return None
