"""How a job comes into being: one request from any door or queue, checked, placed, written once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from shared.clock import Clock
from shared.errors import ConflictError, ForbiddenError, InvalidError, Problem, TooLargeError
from shared.ids import Ids
from shared.jobs import transitions
from shared.jobs.change import Change, Moment
from shared.jobs.model import Head, RetryPolicy, Specification, Spot, Timeouts
from shared.jobs.ports import Doorbell
from shared.jobs.schedule import first_ring
from shared.jobs.states import State

ANY_REGION = "any"
MAX_PRIORITY = 100
_KEY = re.compile(r"[A-Za-z0-9._~:/+=-]{1,128}")
_INSTANCE_TYPE = re.compile(r"[a-z][a-z0-9-]{0,29}\.[a-z0-9]{1,20}")
_SPOT_PRICE_RANGE = (Decimal("0.0001"), Decimal(1000))


class KeyTakenError(ConflictError):
    """The idempotency key stands for a job of another request: `job_id`, where that is known."""

    def __init__(self, key: str, job_id: str | None = None) -> None:
        self.key = key
        self.job_id = job_id
        stands_for = f"job {job_id}" if job_id else "a job"
        super().__init__(f"job ID or idempotency key is already in use: '{key}' stands for {stands_for}, which another request made")
        self.problems = (Problem(pointer="/idempotency_key", value=key, rule=str(self)),)


@dataclass(frozen=True, kw_only=True, slots=True)
class Idempotency:
    """A caller's key; the same key in the same scope with the same request gives the same job."""

    scope: str
    key: str
    request_hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """The job that a submission gave; `created` is False where an earlier one had made it."""

    head: Head
    created: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """What a user asks for. The manifest is a batch/v1 Job; supporting objects live and die with it."""

    manifest: Mapping[str, Any]
    region: str
    namespace: str
    priority: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    supporting: Sequence[Mapping[str, Any]] = ()
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_spot_price: Decimal | None = None
    spot_instance_type: str | None = None
    submitted_by: str | None = None
    idempotency_key: str | None = None
    idempotency_scope: str = "api"

    def content_hash(self) -> str:
        """What two requests under one idempotency key must have in common: all that shapes the job, not who sends it."""
        content = {
            "manifest": self.manifest,
            "supporting": list(self.supporting),
            "region": self.region,
            "namespace": self.namespace,
            "priority": self.priority,
            "labels": dict(self.labels),
            "retry": self.retry.model_dump(),
            "timeouts": self.timeouts.model_dump(),
            "spot": [str(self.max_spot_price.normalize()) if self.max_spot_price else None, self.spot_instance_type],
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """What admission found out about a request: the base name of its objects, and what it would run at once."""

    name: str
    gpus: int


class Admission(Protocol):
    """The one validator for every way in."""

    def admit(self, request: JobRequest) -> Admitted:
        """Raises InvalidError with every problem, ForbiddenError for a namespace, TooLargeError."""
        ...


class Placement(Protocol):
    """Chooses the region of a job that may run anywhere."""

    @property
    def regions(self) -> Sequence[str]:
        """The regions of this fleet."""
        ...

    async def place(self, gpus: int) -> str:
        """An open region with free GPUs, then the one with the shortest ready list; a drained one where all are."""
        ...


class SubmissionStore(Protocol):
    """The part of the store that a submission needs."""

    async def submit(self, change: Change, specification: Specification, idempotency: Idempotency | None) -> Submitted:
        """Write a new job, or find the one that its idempotency key stands for."""
        ...


class Submission:
    """Accepts jobs. Every way in, HTTP or queue, goes through `submit`."""

    def __init__(
        self, *, store: SubmissionStore, admission: Admission, placement: Placement, doorbell: Doorbell, clock: Clock, ids: Ids
    ) -> None:
        self._store = store
        self._admission = admission
        self._placement = placement
        self._doorbell = doorbell
        self._clock = clock
        self._ids = ids

    async def submit(self, request: JobRequest) -> Submitted:
        """Check, place and write a job, then ring at its region.

        Raises InvalidError, ForbiddenError, TooLargeError, KeyTakenError, UnavailableError. When the bell can't be rung, the job is
        accepted all the same: the sweeper finds it by its due mark.
        """
        admitted = self.check(request)
        region = await self._placement.place(admitted.gpus) if request.region == ANY_REGION else request.region
        content_hash = request.content_hash()
        head = self._head(request, admitted, region, content_hash)
        specification = Specification(
            job_id=head.id, version=1, manifest=dict(request.manifest), supporting=[dict(one) for one in request.supporting]
        )
        result = await self._store.submit(transitions.submitted(head), specification, _idempotency(request, content_hash))
        if not result.head.state.terminal:
            await self._doorbell.ring(result.head.region, result.head.id, group=result.head.namespace)
        return result

    def check(self, request: JobRequest) -> Admitted:
        """All that is wrong with a request, at once.

        ForbiddenError and TooLargeError are raised only where that is all that is wrong; otherwise it is told among the problems.
        """
        problems = self.envelope_problems(request)
        try:
            admitted = self._admission.admit(request)
        except (InvalidError, ForbiddenError, TooLargeError) as refusal:
            if not problems:
                raise
            raise InvalidError([*problems, *refusal.problems]) from refusal
        if problems:
            raise InvalidError(problems)
        return admitted

    def envelope_problems(self, request: JobRequest) -> list[Problem]:
        """What is wrong with all that stands around the manifest."""
        return _envelope_problems(request, self._placement.regions)

    def _head(self, request: JobRequest, admitted: Admitted, region: str, content_hash: str) -> Head:
        now = self._clock.now()
        spot = None
        if request.max_spot_price is not None and request.spot_instance_type is not None:
            spot = Spot(max_price=request.max_spot_price, instance_type=request.spot_instance_type)
        head = Head(
            id=self._ids.job(),
            name=admitted.name,
            namespace=request.namespace,
            region=region,
            state=State.QUEUED,
            priority=request.priority,
            revision=1,
            fence=0,
            stamp=self._ids.nonce(),
            spec_version=1,
            spec_hash=content_hash,
            gpus=admitted.gpus,
            submitted_at=now,
            updated_at=now,
            submitted_by=request.submitted_by,
            labels=dict(request.labels),
            retry=request.retry,
            timeouts=request.timeouts,
            spot=spot,
            any_region=request.region == ANY_REGION,
            ring_at=first_ring(now),
        )
        wait = transitions.spot_wait(head, Moment(now=now, stamp=head.stamp))
        return head if wait is None else head.model_copy(update={"wait": wait})


def _idempotency(request: JobRequest, content_hash: str) -> Idempotency | None:
    if request.idempotency_key is None:
        return None
    return Idempotency(scope=request.idempotency_scope, key=request.idempotency_key, request_hash=content_hash)


def _envelope_problems(request: JobRequest, regions: Sequence[str]) -> list[Problem]:
    """The rules of all that stands around the manifest."""
    problems = []
    if request.region != ANY_REGION and request.region not in regions:
        rule = f"target_region is not deployed; it must be one of {', '.join(sorted(regions))}, or 'any'"
        problems.append(Problem(pointer="/target_region", value=request.region, rule=rule))
    if not 0 <= request.priority <= MAX_PRIORITY:
        problems.append(Problem(pointer="/priority", value=request.priority, rule=f"must be a whole number from 0 to {MAX_PRIORITY}"))
    if request.idempotency_key is not None and not _KEY.fullmatch(request.idempotency_key):
        rule = "Idempotency-Key is invalid: it must be 1 to 128 characters out of A-Z a-z 0-9 . _ ~ : / + = -"
        problems.append(Problem(pointer="/idempotency_key", value=request.idempotency_key, rule=rule))
    return [*problems, *_spot_problems(request), *_contradictions(request)]


def _contradictions(request: JobRequest) -> Iterator[Problem]:
    """Limits of which one could never have any effect beside the other."""
    retry, timeouts = request.retry, request.timeouts
    if retry.backoff_seconds > retry.max_backoff_seconds:
        rule = f"must not be more than max_backoff_seconds, {retry.max_backoff_seconds}"
        yield Problem(pointer="/retry/backoff_seconds", value=retry.backoff_seconds, rule=rule)
    for name in ("queue_seconds", "execution_seconds"):
        limit = getattr(timeouts, name)
        if limit is not None and timeouts.total_seconds is not None and limit > timeouts.total_seconds:
            rule = f"must not be more than total_seconds, {timeouts.total_seconds}, which would always end the job first"
            yield Problem(pointer=f"/timeouts/{name}", value=limit, rule=rule)


def _spot_problems(request: JobRequest) -> list[Problem]:
    price, instance_type = request.max_spot_price, request.spot_instance_type
    if price is None and instance_type is None:
        return []
    if price is None or instance_type is None:
        missing = "/max_spot_price" if price is None else "/spot_instance_type"
        return [Problem(pointer=missing, value=None, rule="max_spot_price and spot_instance_type must be provided together")]
    problems = []
    low, high = _SPOT_PRICE_RANGE
    if not low <= price <= high:
        rule = f"max_spot_price must be between {low} and {high} USD/hour"
        problems.append(Problem(pointer="/max_spot_price", value=str(price), rule=rule))
    if not _INSTANCE_TYPE.fullmatch(instance_type):
        rule = "spot_instance_type is not a valid EC2 instance type: it must be one such as g5.xlarge"
        problems.append(Problem(pointer="/spot_instance_type", value=instance_type, rule=rule))
    return problems
