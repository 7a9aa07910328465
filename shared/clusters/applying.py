"""Applying objects to a cluster directly: all or nothing, as far as Kubernetes allows.

Kubernetes has no transactions, so everything that can be known before is asked before: what stands in the way, and whether the cluster
would take every single object (a server-side dry run). Then they are applied in their order, up to the first that fails; what was done
with each is told.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.defaults import completed
from shared.clusters.errors import NOTHING_DONE, ApiError, MissingError
from shared.clusters.kinds import APPLIED
from shared.clusters.replacing import create_job, probe_replacement, remove_finished
from shared.clusters.standing import Target, insist, look, objection
from shared.clusters.writing import Write
from shared.errors import ConflictError, FleetError, UnavailableError

FIELD_MANAGER: Final = "gpufleet-api"
AT_ONCE: Final = 8
"""Objects that one request looks at and dry-runs at the same time."""
PATIENCE_SECONDS: Final = 15.0
"""How long a cluster that doesn't answer is asked again, for each object that is applied and for all looks and dry runs together."""
_WRITE: Final = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
_TRY: Final = {**_WRITE, "dryRun": "All"}
_REQUEST: Final = re.compile(r"(GET|POST|PATCH|DELETE) /\S*: ")

A = TypeVar("A")
B = TypeVar("B")


class Done(StrEnum):
    """What was done with an object; of a dry run, what would be."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    SKIPPED = "skipped"  # not tried, since another one failed


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """One object of a request, and what was done with it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    status: Done
    message: str
    uid: str | None = None
    """Of the object that stands now; None where none is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """All objects of a request, in its order."""

    resources: tuple[Applied, ...]

    @property
    def success(self) -> bool:
        """Whether nothing failed."""
        return not self.errors

    @property
    def errors(self) -> list[str]:
        """Each failure in a line."""
        return [f"{one.kind} {one.namespace}/{one.name}: {one.message}" for one in self.resources if one.status is Done.FAILED]

    def count(self, status: Done) -> int:
        """How many objects have a status."""
        return sum(one.status is status for one in self.resources)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """An admitted object, and the namespace that it is for. A Job that `replaces` takes the place of a finished one of its name.

    `annotations` are the fleet's own, which admission would refuse in a manifest.
    """

    manifest: dict[str, Any]
    namespace: str
    replaces: bool = True
    annotations: Mapping[str, str] = field(default_factory=dict)


async def apply(api: KubernetesApi, wanted: Sequence[Wanted], *, submitted_by: str, dry_run: bool = False) -> Outcome:
    """Apply objects of the kinds in `clusters.kinds.APPLIED`, which admission has seen, in their order.

    A Job of the same name that has finished is replaced, by its UID; any other object is changed by server-side apply. Who submits is
    recorded in an annotation. With `dry_run` the cluster is only asked what it would do.

    Raises:
        ConflictError: an object may not be overwritten (an active Job, an object of the fleet's queue): all such, and nothing is applied.
        UnavailableError: the cluster doesn't answer, and nothing is applied.
        ApiError: the cluster refuses to be read, and nothing is applied.
    """
    targets = [_target(one, submitted_by) for one in wanted]
    until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    standing = await _each(targets, lambda target: insist(lambda: look(api, target), until=until))
    objections = [why for pair in zip(targets, standing, strict=True) if (why := objection(*pair)) is not None]
    if objections:
        raise ConflictError("; ".join(objections))
    steps = [_Step(api, target, found) for target, found in zip(targets, standing, strict=True)]
    tried = await _each(steps, lambda step: step.dry_run(until=until))
    if dry_run:
        return Outcome(resources=tuple(tried))
    if any(one.status is Done.FAILED for one in tried):
        why = "not applied, since the cluster refuses another manifest"
        return Outcome(
            resources=tuple(
                one if one.status is Done.FAILED else step.told(Done.SKIPPED, why) for step, one in zip(steps, tried, strict=True)
            )
        )
    return Outcome(resources=tuple(await _in_order(steps)))


async def _in_order(steps: Iterable[_Step]) -> list[Applied]:
    done: list[Applied] = []
    failed = False
    for step in steps:
        if failed:
            done.append(step.told(Done.SKIPPED, "not applied, since one before it failed"))
            continue
        try:
            done.append(await step.run())
        except (ConflictError, ApiError, UnavailableError) as error:
            if not done and not step.begun and isinstance(error, (ConflictError, *NOTHING_DONE)):
                raise
            failed = True
            done.append(step.told(Done.FAILED, _words(error)))
    return done


class _Step:
    """One object's way to the cluster. `begun`: something of it may have been changed."""

    def __init__(self, api: KubernetesApi, target: Target, standing: Mapping[str, Any] | None) -> None:
        self._api = api
        self._target = target
        self._standing = standing
        self.begun = False

    async def dry_run(self, *, until: float) -> Applied:
        """Ask the cluster whether it would take the object, and what it would do. Raises ConflictError, UnavailableError."""
        target, standing = self._target, self._standing
        try:
            if not target.is_job:
                status, _ = await Write(self._api, target, standing, query=_TRY).make(until=until)
                return self.told(Done(status), f"would be {status}" if status != Done.UNCHANGED else "would stay as it is", standing)
            if standing is None:
                await create_job(self._api, target, query=_TRY, until=until)
                return self.told(Done.CREATED, "would be created")
            await probe_replacement(self._api, target, query=_TRY, until=until)
            return self.told(Done.CREATED, f"would be created in place of the finished Job (UID {standing['metadata']['uid']})", standing)
        except ApiError as error:
            return self.told(Done.FAILED, self._refusal(error), standing)

    async def run(self) -> Applied:
        """Apply the object. Raises ConflictError, ApiError, UnavailableError."""
        target, standing = self._target, self._standing
        if not target.is_job:
            status, made = await Write(self._api, target, standing, query=_WRITE).make(until=self._until())
            return self.told(Done(status), status if status != Done.UNCHANGED else "stands as it is wanted", made)
        message = "created"
        if standing is not None:
            uid = standing["metadata"]["uid"]
            self.begun = True
            await remove_finished(self._api, target, uid)
            message = f"created in place of the finished Job (UID {uid})"
        made = await create_job(self._api, target, query=_WRITE, until=self._until())
        return self.told(Done.CREATED, message, made)

    def told(self, status: Done, message: str, document: Mapping[str, Any] | None = None) -> Applied:
        """What is said of the object."""
        target = self._target
        return Applied(
            api_version=target.kind.api_version,
            kind=target.kind.kind,
            namespace=target.namespace,
            name=target.name,
            status=status,
            message=message,
            uid=document["metadata"]["uid"] if document is not None else None,
        )

    def _refusal(self, error: ApiError) -> str:
        kind = self._target.kind
        if isinstance(error, MissingError) and "could not find the requested resource" in str(error):
            return f"the cluster doesn't know {kind.kind} ({kind.api_version}): what serves it isn't installed there"
        return _words(error)

    @staticmethod
    def _until() -> float:
        return asyncio.get_running_loop().time() + PATIENCE_SECONDS


def _target(wanted: Wanted, submitted_by: str) -> Target:
    document = completed(wanted.manifest)
    kind = APPLIED[document["apiVersion"], document["kind"]]
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **wanted.annotations, names.SUBMITTED_BY: submitted_by}
    document["metadata"] = {**metadata, "namespace": wanted.namespace, "annotations": annotations}
    document.pop("status", None)
    return Target(kind=kind, namespace=wanted.namespace, name=str(metadata["name"]), document=document, replaces=wanted.replaces)


async def _each(items: Sequence[A], ask: Callable[[A], Awaitable[B]]) -> list[B]:
    """Ask for each, some at a time; the first failure ends it."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(item: A) -> B:
        async with room:
            return await ask(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _words(error: FleetError) -> str:
    """What the cluster says, without the request that it was said to."""
    words = _REQUEST.sub("", str(error))
    is_open = isinstance(error, UnavailableError) and not isinstance(error, NOTHING_DONE)
    return f"{words}; whether it was applied is not known" if is_open else words
