"""Jobs while the number of shards changes: what processes of one deployment write, those of the next one find, and the other way round."""

from dataclasses import replace

import pytest

from shared.jobs.model import Claim
from shared.jobs.states import State
from shared.store import keys
from tests.integration.region import REGION, job
from workers.assembly import assemble

OLD = {"ready_shards": 1, "due_shards": 1}
READ_MORE = OLD | {"ready_shards_read": 4, "due_shards_read": 4}
WRITE_MORE = {"ready_shards": 4, "due_shards": 4}
COUNT = 12
"""Ids are random: all of them in the first of four shards are one in 16 million."""


async def told(region, settings):
    """The region as processes see it that were told other numbers; its workers end with the others."""
    changed = region.settings.model_copy(update=settings)
    return replace(region, settings=changed, core=await assemble(changed, region.aws))


async def submitted(region):
    return [await region.submit(manifest=job(f"job-{number}")) for number in range(COUNT)]


async def left(region):
    """What still stands in any of the shards."""
    layout = keys.Layout.of(region.settings.model_copy(update=WRITE_MORE))
    wanted = {keys.READY_INDEX: layout.ready_partitions(REGION), keys.DUE_INDEX: layout.due_partitions(REGION)}
    return [
        item
        for index, partitions in wanted.items()
        for partition in partitions
        async for item in region.core.table.query_all(
            index=index, key_condition=f"{keys.INDEXES[index][0]} = :pk", values={":pk": partition}
        )
    ]


@pytest.mark.parametrize(
    ("writer", "reader"),
    [(OLD, OLD), (OLD, READ_MORE), (READ_MORE, OLD), (READ_MORE, WRITE_MORE), (WRITE_MORE, READ_MORE)],
    ids=["old-old", "old-more-read", "more-read-old", "more-read-more-written", "more-written-more-read"],
)
async def test_processes_of_neighbouring_deployments_lose_no_job_of_each_other(frail, writer, reader):
    """Raising goes through these pairs from left to right, lowering from right to left."""
    writers, readers = await told(frail, writer), await told(frail, reader)
    heads = await submitted(writers)
    dead = await writers.core.store.ready(REGION, COUNT // 2)
    now = writers.core.clock.now()
    for entry in dead:  # by a worker of the one deployment, which dies
        claim = Claim(owner="dead", nonce=writers.core.ids.nonce(), claimed_at=now, expires_at=now + writers.settings.lease)
        assert await writers.core.store.claim(entry, claim) is not None

    await readers.dispatcher()
    await readers.observer()
    await readers.sweeper()

    await _until_all_have_ended(readers, heads)
    assert [len(frail.starts(head.id)) for head in heads] == [1] * COUNT
    assert await left(frail) == []


async def test_more_shards_and_back_while_jobs_come(frail):
    """Each deployment's processes beside those of the one before, up and down again; workers end in the middle of their work."""
    await frail.observer()
    before = await told(frail, OLD)
    previous = [await before.dispatcher("d0"), await before.sweeper()]
    heads = await submitted(before)
    for number, step in enumerate([READ_MORE, WRITE_MORE, READ_MORE, OLD], 1):
        if step is OLD:  # the guide's wait, until nothing is left in the shards that are no longer read
            await _until_all_have_ended(frail, heads)
            assert await left(frail) == []
        region = await told(frail, step)
        workers = [await region.dispatcher(f"d{number}"), await region.sweeper()]
        heads += await submitted(before) + await submitted(region)
        for worker in previous:
            await worker.kill()
        before, previous = region, workers
    await _until_all_have_ended(frail, heads)
    assert [len(frail.starts(head.id)) for head in heads] == [1] * len(heads)
    assert await left(frail) == []


async def _until_all_have_ended(region, heads):
    for head in heads:
        await region.until(head.id, State.SUCCEEDED)
