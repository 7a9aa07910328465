"""After the table was set back to an earlier point in time: what clusters and bucket know, and the table has forgotten.

A head that is older than the truth could have an execution run a second time, beside or after the one that it doesn't know of. So before
any worker starts, each job that has not ended by the table is held against all clusters, and against the kept logs, which outlive objects:

- an object of the job that was released, or is of a later execution: the head takes up that execution, as if it had just been committed;
- none, but logs of the head's execution or a later one: it ran and is gone. Nobody can say any more how it ended; the job has failed;
- neither, and the point in time is so long ago that an ended object may have been removed since: nobody can say whether it ran; as above;
- neither otherwise: it has not run. The job waits, or its committed object is judged by the observer, as ever.

Jobs that were accepted after that point are no more in the table. Their objects are told, and left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from shared.clock import Clock
from shared.ids import Ids
from shared.jobs import transitions
from shared.jobs.changes import Changes
from shared.jobs.model import Claim, ClusterObject, Head
from shared.jobs.ports import JobStore, LostError, Observed
from shared.jobs.states import State

REASON: Final = "restored"
"""The reason of a job that failed because nobody can say any more what became of it."""
REMOVED_AFTER: Final = timedelta(hours=1)
"""The shortest time for which the fleet lets an ended object stand (`ttlSecondsAfterFinished`, `shared.clusters.rendering`)."""
_LEASE: Final = timedelta(seconds=60)


class Found(StrEnum):
    """What was found out about a job."""

    TAKE_UP = "take up"  # an object that the table doesn't know of
    RAN = "ran"  # it ran after the point in time, and nothing is left of it but logs
    UNTRACED = "untraced"  # it may have run, and nothing is left
    FORGOTTEN = "forgotten"  # it was accepted after the point in time; only its object is left


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One job that the table tells wrongly: its head there, and the newest object of it with its region."""

    found: Found
    job_id: str
    head: Head | None = None
    seen: Observed | None = None
    region: str | None = None


class KeptLogs(Protocol):
    """Which executions of a job have left logs (`shared.clusters.kept_logs`)."""

    async def executions(self, job_id: str) -> Iterable[int]:
        """Their numbers. Raises UnavailableError."""
        ...


class Reconciliation:
    """Finds what the table has forgotten, and writes what it has to know. No worker may run meanwhile."""

    def __init__(self, *, store: JobStore, logs: KeptLogs, changes: Changes, clock: Clock, ids: Ids, owner: str) -> None:
        self._store = store
        self._logs = logs
        self._changes = changes
        self._clock = clock
        self._ids = ids
        self._owner = owner

    async def examine(self, objects: Mapping[str, Sequence[Observed]], *, restored_to: datetime) -> list[Finding]:
        """Hold the table against the objects of every region's cluster, by region. Writes nothing. Raises UnavailableError."""
        newest = _newest(objects)
        untraceable = self._clock.now() - restored_to >= REMOVED_AFTER
        found = await self._forgotten(newest)
        async for head in self._live(objects):
            found += await self._of(head, newest.get(head.id), untraceable=untraceable)
        return found

    async def settle(self, finding: Finding) -> bool:
        """Write what a finding calls for; False where the job has changed since. Once more is harmless. Raises UnavailableError."""
        head, seen, region = finding.head, finding.seen, finding.region
        try:
            if finding.found is Found.TAKE_UP and head is not None and seen is not None and region is not None:
                await self._take_up(head, seen, region)
            elif finding.found in (Found.RAN, Found.UNTRACED) and head is not None:
                await self._changes.write(transitions.failed(head, REASON, _told(finding), self._changes.moment()))
        except LostError:
            return False
        return True

    async def _take_up(self, head: Head, seen: Observed, region: str) -> None:
        """Three changes, as a dispatcher would have made them. Whoever dies between them leaves a job that is found again."""
        message = f"execution {seen.execution} was found in {region}, which the restored table did not know of"
        moment = self._changes.moment()
        found = await self._changes.write(transitions.found_again(head, region, seen.execution, message, moment))
        now, nonce = self._clock.now(), self._ids.nonce()
        claim = Claim(owner=self._owner, nonce=nonce, claimed_at=now, expires_at=now + _LEASE)
        held = await self._changes.write(transitions.claimed_again(found, claim, self._changes.moment()))
        placed = ClusterObject(name=seen.name, uid=seen.uid)
        await self._changes.write(transitions.committed(held, placed, self._changes.moment()))

    async def _live(self, regions: Iterable[str]) -> AsyncIterator[Head]:
        for region in regions:
            for state in State:
                if state.terminal:
                    continue
                async for heads in self._store.in_state(region, state):
                    for head in heads:
                        yield head

    async def _forgotten(self, newest: Mapping[str, tuple[str, Observed]]) -> list[Finding]:
        known = await self._store.heads(list(newest))
        return [
            Finding(found=Found.FORGOTTEN, job_id=job_id, seen=seen, region=region)
            for job_id, (region, seen) in newest.items()
            if job_id not in known
        ]

    async def _of(self, head: Head, newest: tuple[str, Observed] | None, *, untraceable: bool) -> list[Finding]:
        if newest is not None and _is_news(head, newest[1]):
            return [Finding(found=Found.TAKE_UP, job_id=head.id, head=head, seen=newest[1], region=newest[0])]
        if head.object is not None:
            return []
        if any(number >= head.execution for number in await self._logs.executions(head.id)):
            return [Finding(found=Found.RAN, job_id=head.id, head=head)]
        return [Finding(found=Found.UNTRACED, job_id=head.id, head=head)] if untraceable else []


def _newest(objects: Mapping[str, Sequence[Observed]]) -> dict[str, tuple[str, Observed]]:
    """The newest object of each job over all regions. Of one execution, the one that was released: others are strays of a move."""
    found: dict[str, tuple[str, Observed]] = {}
    for region, seen_there in objects.items():
        for seen in seen_there:
            standing = found.get(seen.job_id)
            if standing is None or _rank(seen) > _rank(standing[1]):
                found[seen.job_id] = (region, seen)
    return found


def _rank(seen: Observed) -> tuple[int, bool]:
    return seen.execution, seen.is_released


def _is_news(head: Head, seen: Observed) -> bool:
    """Whether an object tells of more than the head does. One that was never released and is of its own execution is the next claim's."""
    if seen.execution == head.execution:
        return head.object is None and seen.is_released
    return seen.execution > head.execution


def _told(finding: Finding) -> str:
    if finding.found is Found.RAN:
        return "it ran after the point in time to which the table was restored; how it ended is lost, its logs are kept"
    return "the table was restored to a time so long ago that nobody can say whether it ran since"
