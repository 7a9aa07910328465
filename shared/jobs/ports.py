"""What the rules of jobs need of the world: a store, a cluster, a doorbell, a price. Implemented elsewhere, simulated in tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from shared.errors import FleetError
from shared.jobs.change import Change
from shared.jobs.model import Claim, Head, PodCounts, ReadyEntry, Specification, Spent
from shared.jobs.states import State


class LostError(FleetError):
    """A conditional write was refused: somebody else changed the job first. `current` is the head as it stands (None: gone)."""

    def __init__(self, current: Head | None) -> None:
        self.current = current
        super().__init__(f"the job has changed: {current.state if current else 'gone'}")


class RefusedError(FleetError):
    """The cluster will never accept this object; the message says why, in the cluster's own words."""


class StrangerError(RefusedError):
    """An object that is not ours stands under the name of an execution. It is neither deleted nor patched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What a cluster says of one object of this fleet (a batch/v1 Job).

    `released` is the text of our annotation: "no", or the time of the release. `ready` counts the pods that run. `disrupted` tells of a
    pod with the condition DisruptionTarget, `unschedulable` of why a pod finds no place, `logs` of what was kept of its output.
    """

    name: str
    namespace: str
    uid: str
    resource_version: str
    job_id: str
    execution: int
    spec_hash: str
    released: str
    suspended: bool
    deleting: bool
    ready: int = 0
    pods: PodCounts | None = None
    complete: bool = False
    failed_reason: str | None = None
    failed_message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    disrupted: str | None = None
    unschedulable: str | None = None
    logs: str | None = None
    created_at: datetime | None = None

    @property
    def is_released(self) -> bool:
        """Whether our release has happened, once and for all."""
        return self.released != "no"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """The objects of one execution, as they are to be sent to the cluster."""

    job: Mapping[str, Any]
    supporting: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        """The deterministic name of the execution's object."""
        return str(self.job["metadata"]["name"])


class Render(Protocol):
    """Makes the objects of executions."""

    def name(self, head: Head) -> str:
        """The deterministic name of the object of the head's execution."""
        ...

    def bundle(self, head: Head, specification: Specification) -> Bundle:
        """The job object, suspended and annotated, and its supporting objects. Raises InvalidError."""
        ...


class LogKeeper(Protocol):
    """Keeps what the containers of an execution wrote, so that it can be read when the pods are gone."""

    async def keep(self, head: Head) -> str:
        """Save the logs of the head's execution; says in a few words what was kept. Never raises and takes a bounded time."""
        ...


class Meter(Protocol):
    """Knows what an execution has cost, from the pods and nodes that it sees and the prices that it has at hand."""

    async def settle(self, head: Head) -> None:
        """Wait until the pods of the head's execution are seen to have ended, for a moment at the most. Never raises."""
        ...

    def cost(self, head: Head, seen: Observed | None, at: datetime, *, ended: bool) -> Spent:
        """What the head's execution has cost up to a time, or in all once it has `ended`. `seen` is its object, where that is known."""
        ...


class JobStore(Protocol):
    """The table, as the rules of jobs see it. Every method may raise UnavailableError; then the outcome is unknown."""

    async def head(self, job_id: str) -> Head | None:
        """The head as it stands (consistent read)."""
        ...

    async def heads(self, job_ids: Sequence[str]) -> dict[str, Head]:
        """Many heads in as few requests as possible (consistent read); unknown ids are left out."""
        ...

    async def specifications(self, heads: Sequence[Head]) -> dict[str, Specification]:
        """The specifications of the heads' versions by job id, in as few requests as possible."""
        ...

    async def ready(self, region: str, limit: int) -> list[ReadyEntry]:
        """The best entries of a region's ready list, in order."""
        ...

    async def claim(self, entry: ReadyEntry, claim: Claim) -> Head | None:
        """Claim a queued job in one conditional write; None where somebody else was faster. Idempotent by the claim's nonce."""
        ...

    async def write(self, change: Change) -> Head:
        """Write a change in one transaction; returns the new head. Raises LostError. Idempotent by the new head's stamp."""
        ...

    async def due(self, region: str, limit: int) -> list[tuple[datetime, str | None]]:
        """The earliest due marks of a region, (time, job id), whether or not their time has come; the id None is the region itself."""
        ...

    def in_state(self, region: str, state: State) -> AsyncIterator[list[Head]]:
        """All jobs of a region in one state, page by page."""
        ...

    async def active(self, region: str) -> list[Head]:
        """All jobs of a region that have a committed object on its cluster."""
        ...


class Cluster(Protocol):
    """The cluster of one region. UnavailableError: no answer, or one that leaves the outcome open."""

    async def create(self, bundle: Bundle, job_id: str, execution: int, spec_hash: str) -> Observed:
        """Create the execution's object, suspended, or adopt the one that is ours. Raises RefusedError, StrangerError."""
        ...

    async def read(self, namespace: str, name: str) -> Observed | None:
        """The fleet's object under a name; None where there is none (or only a stranger)."""
        ...

    async def support(self, bundle: Bundle, owner: Observed) -> None:
        """Apply the supporting objects, owned by the execution's object. Idempotent. Raises RefusedError."""
        ...

    async def release(self, namespace: str, name: str, uid: str, at: datetime) -> bool:
        """Let the object run, once for ever; False where that UID isn't there any more. An earlier release is left as it is."""
        ...

    async def disruption(self, namespace: str, name: str) -> str | None:
        """Why a pod of the object lost its machine (its condition DisruptionTarget), None where none did."""
        ...

    async def pods_left(self, namespace: str, job_id: str, execution: int) -> bool:
        """Whether a pod of the execution still runs or may run. Pods outlive an object that others deleted in the background."""
        ...

    async def clear_pods(self, namespace: str, job_id: str, execution: int, uid: str) -> bool:
        """Delete the execution's pods that its object, of that UID and gone, left without an owner; True when no pod is left at all."""
        ...

    async def delete(self, namespace: str, name: str, uid: str) -> bool:
        """Delete the object of that UID and then its pods; True when it is gone, False while its pods are still going."""
        ...


class Doorbell(Protocol):
    """Rings at a region's dispatchers. Never raises: what it fails to tell, the sweeper finds."""

    async def ring(self, region: str, job_id: str, *, kind: str = "ready", delay: float = 0.0, group: str | None = None) -> None:
        """`kind` is `ready`, `stop` or `wake`; `delay` in seconds, 900 at the most; `group` is the namespace."""
        ...


class SpotPrices(Protocol):
    """The present price of spot capacity."""

    async def price(self, region: str, instance_type: str) -> Decimal | None:
        """The lowest newest price over the zones of a region in USD an hour, None where none is known."""
        ...
