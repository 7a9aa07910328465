"""Cancelling a job in any state that is not terminal."""

from __future__ import annotations

from collections.abc import Container

from shared.errors import ConflictError, NotFoundError
from shared.ids import is_job_id
from shared.jobs import transitions
from shared.jobs.change import Change, Moment
from shared.jobs.changes import Changes
from shared.jobs.model import Head, StopIntent
from shared.jobs.ports import JobStore


class Cancellation:
    """Ends a queued job at once, and marks any other: it is cancelled when its cluster confirms that nothing of it runs."""

    def __init__(self, *, store: JobStore, changes: Changes) -> None:
        self._store = store
        self._changes = changes

    async def cancel(self, job_id: str, *, reason: str, by: str | None = None, within: Container[str] | None = None) -> Head:
        """Returns the head after the request. Raises NotFoundError, or ConflictError for a job that has ended.

        `within` are the namespaces in which the caller may cancel, None for all; a job of another is not found.
        """
        head = await self._store.head(job_id) if is_job_id(job_id) else None
        if head is None or (within is not None and head.namespace not in within):
            raise NotFoundError("Job", job_id)

        def build(head: Head, moment: Moment) -> Change | None:
            if head.state.terminal:
                raise ConflictError(f"Job '{head.id}' is already {head.state}; only a job that has not ended can be cancelled")
            return transitions.stop_requested(head, StopIntent.CANCEL, reason, by, moment)

        return await self._changes.make(head, build)
