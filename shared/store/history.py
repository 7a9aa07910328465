"""What a job went through: its events and executions, all in the job's own partition and read consistently."""

from __future__ import annotations

from collections.abc import AsyncIterator

from shared.jobs.model import Event, Execution, Head, current_execution
from shared.store import items, keys
from shared.store.table import Table


class History:
    """Reads events and executions of one job."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def events(self, job_id: str) -> list[Event]:
        """All events of a job, oldest first; none of an unknown job."""
        return [items.from_item(Event, item) async for item in self._part(job_id, keys.EVENT)]

    async def executions(self, head: Head) -> list[Execution]:
        """The executions of a job in order: those that have ended as they were written, then the current one as the head tells."""
        ended = [items.from_item(Execution, item) async for item in self._part(head.id, keys.EXECUTION)]
        found = {execution.number: execution for execution in ended}
        current = current_execution(head)
        if current is not None and (current.object is not None or current.claimed_by is not None):
            found.setdefault(current.number, current)
        return [found[number] for number in sorted(found)]

    def _part(self, job_id: str, prefix: str) -> AsyncIterator[items.Item]:
        return self._table.query_all(
            key_condition="pk = :pk AND begins_with(sk, :prefix)",
            values={":pk": keys.job(job_id), ":prefix": prefix},
            consistent=True,
        )
