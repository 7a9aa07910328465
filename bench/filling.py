"""Jobs put straight into the table, as a submission would have left them, for measurements that don't measure submitting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from bench.stage import NAMESPACE, REGION, Fleet
from bench.workload import at_a_time, request
from shared.ids import RandomIds
from shared.jobs.model import Head, Specification
from shared.jobs.states import State
from shared.store import items

_BATCH = 25
"""Items in one BatchWriteItem; DynamoDB takes no more."""


def heads(
    count: int, *, state: State = State.QUEUED, spread: timedelta = timedelta(milliseconds=10), ago: timedelta = timedelta()
) -> Iterator[Head]:
    """Heads of jobs that were submitted one after the other, `spread` apart, the last of them so long ago. No bell is due for a day."""
    ids = RandomIds()
    now = datetime.now(UTC) - ago
    spec_hash = request().content_hash()
    for number in range(count):
        at = now - spread * (count - number)
        yield Head(
            id=ids.job(),
            name="train",
            namespace=NAMESPACE,
            region=REGION,
            state=state,
            priority=0,
            revision=1,
            fence=0,
            stamp=ids.nonce(),
            spec_version=1,
            spec_hash=spec_hash,
            gpus=0,
            submitted_at=at,
            updated_at=at,
            ring_at=None if state.terminal else now + timedelta(days=1),
            finished_at=at if state.terminal else None,
        )


async def fill(fleet: Fleet, found: Iterable[Head], *, duration: float | None = None, concurrency: int = 4) -> int:
    """Write heads, and with a `duration` also the specifications of jobs that run so long; returns how many jobs there are."""
    content = items.compress({"manifest": dict(request(duration=duration).manifest), "supporting": []}) if duration is not None else None
    jobs = 0

    def wire() -> Iterator[items.Item]:
        nonlocal jobs
        for head in found:
            jobs += 1
            yield items.to_wire(items.head_item(head, fleet.core.layout))
            if content is not None:
                key = {"pk": f"JOB#{head.id}", "sk": "SPEC#000001"}
                yield items.to_wire(key | {"content": content})

    waiting = wire()
    batches = list(iter(lambda: list(islice(waiting, _BATCH)), []))
    await at_a_time(concurrency, len(batches), lambda number: _write(fleet, batches[number]))
    return jobs


async def _write(fleet: Fleet, batch: Sequence[items.Item]) -> None:
    wanted = {fleet.settings.table: [{"PutRequest": {"Item": item}} for item in batch]}
    while wanted:
        wanted = (await fleet.aws.dynamodb.batch_write_item(RequestItems=wanted)).get("UnprocessedItems") or {}


def specification(head: Head) -> Specification:
    """What belongs to a head of this module."""
    return Specification(job_id=head.id, version=head.spec_version, manifest=dict(request().manifest), supporting=[])
