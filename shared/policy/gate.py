"""Admission as submissions ask for it: the policy's `check` behind the port of `shared.jobs.submission`.

Checking a manifest of two megabytes takes a good part of a second of one core. A caller on an event loop that many share prepares such a
request in a thread first; the submission then finds the outcome instead of working it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shared.errors import FleetError, ForbiddenError, InvalidError, Problem, TooLargeError
from shared.jobs.fields import DEFAULT_NAMESPACE, MAX_SUPPORTING
from shared.jobs.submission import Admitted, JobRequest
from shared.policy.admission import check
from shared.policy.settings import Policy


class Gate:
    """Implements `shared.jobs.submission.Admission` with one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._prepared: dict[int, Admitted | FleetError] = {}

    def admit(self, request: JobRequest) -> Admitted:
        """Raises InvalidError with every problem, ForbiddenError for a namespace, TooLargeError."""
        outcome = self._prepared.pop(id(request), None)
        if outcome is None:
            outcome = self._decide(request)
        if isinstance(outcome, FleetError):
            raise outcome
        return outcome

    async def prepare(self, request: JobRequest) -> None:
        """Work out the answer to a request in a thread. The same object must then be admitted, or `forget` be called."""
        self._prepared[id(request)] = await asyncio.to_thread(self._decide, request)

    @asynccontextmanager
    async def prepared(self, request: JobRequest) -> AsyncIterator[None]:
        """Inside, the answer to a request is worked out already."""
        await self.prepare(request)
        try:
            yield
        finally:
            self.forget(request)

    def forget(self, request: JobRequest) -> None:
        """Drop a prepared answer that was not asked for."""
        self._prepared.pop(id(request), None)

    def further_problems(self, document: dict[str, Any]) -> tuple[Problem, ...]:
        """What the policy says of a body of which some fields are wrong, so that all problems are told at once.

        Of a field that can't be read, nothing is said here.
        """
        manifest, supporting, labels = document.get("manifest"), document.get("supporting"), document.get("labels")
        namespace = document.get("namespace", DEFAULT_NAMESPACE)
        try:
            check(
                manifest if isinstance(manifest, dict) else {},
                supporting[:MAX_SUPPORTING] if isinstance(supporting, list) else (),
                namespace=namespace if isinstance(namespace, str) else None,
                policy=self.policy,
                labels=labels if isinstance(labels, dict) else None,
            )
        except (InvalidError, ForbiddenError, TooLargeError) as refusal:
            unread = not isinstance(manifest, dict)
            return tuple(one for one in refusal.problems if not (unread and one.pointer.startswith("/manifest")))
        return ()

    def _decide(self, request: JobRequest) -> Admitted | FleetError:
        try:
            found = check(
                dict(request.manifest),
                [dict(one) for one in request.supporting],
                namespace=request.namespace,
                policy=self.policy,
                labels=request.labels,
            )
        except FleetError as refusal:
            return refusal
        return Admitted(name=found.name, gpus=found.gpus)
