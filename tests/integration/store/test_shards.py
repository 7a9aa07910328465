"""Another number of shards on a fleet that works: first all read the larger number, then all write the other one."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from shared.ids import RandomIds
from shared.jobs.model import Head
from shared.jobs.states import State
from shared.settings import Settings
from shared.store import items, keys
from shared.store.backlogs import Backlogs
from shared.store.deliveries import Deliveries
from shared.store.jobs import Jobs
from shared.store.specifications import Specifications
from shared.store.table import Table
from shared.webhooks.deliveries import Delivery, DeliveryState

REGION = "us-east-1"
START = datetime(2026, 11, 30, 8, tzinfo=UTC)
FEW, MANY = {"ready_shards": 1, "due_shards": 1}, {"ready_shards": 4, "due_shards": 4}
MORE_READ = {"ready_shards_read": 4, "due_shards_read": 4}


@pytest.fixture
def table(fleet_resources):
    return Table(fleet_resources.aws.dynamodb, fleet_resources.settings.table)


def layout(**shards):
    return keys.Layout.of(Settings(control_region=REGION, regions=(REGION,), **shards))


async def write(table, layout, *, since, count=20):
    """Jobs of a writer, each ready and due; their ids in order."""
    heads = [
        Head(
            id=RandomIds().job(),
            name="train",
            namespace="gco-jobs",
            region=REGION,
            state=State.QUEUED,
            priority=0,
            revision=1,
            fence=0,
            spec_version=1,
            spec_hash="x",
            gpus=0,
            stamp="0" * 16,
            submitted_at=at,
            updated_at=at,
            ring_at=at + timedelta(hours=1),
        )
        for at in (since + timedelta(seconds=number) for number in range(count))
    ]
    for head in heads:
        await table.put(items.head_item(head, layout))
    return [head.id for head in heads]


def delivery(at):
    """One that waits until a time, of a job of its own."""
    return Delivery(
        webhook_id="wh-1",
        job_id=RandomIds().job(),
        number=1,
        type="job.completed",
        namespace="gco-jobs",
        at=at,
        state=DeliveryState.PENDING,
        stamp="s",
        created_at=at,
        deadline=at + timedelta(days=1),
        next_at=at,
    )


@pytest.mark.parametrize("written", [FEW, MANY], ids=["as-before", "as-raised"])
async def test_whoever_reads_more_finds_what_is_written_to_fewer_and_to_as_many(table, written):
    """The first deployment of a raise, and the last but one of a lowering: writers of both numbers are at work beside such readers."""
    readers = layout(**written, **MORE_READ)
    before = await write(table, layout(**FEW, **MORE_READ), since=START)
    after = await write(table, layout(**MANY), since=START + timedelta(minutes=1))

    jobs = Jobs(table, Specifications(table, None), readers)

    assert [entry.job_id for entry in await jobs.ready(REGION, 100)] == before + after
    assert [job_id for _, job_id in await jobs.due(REGION, 100)] == before + after
    backlogs = Backlogs(table, readers)
    now = START + timedelta(hours=9)
    assert (await backlogs.ready(REGION, now)).count == (await backlogs.overdue(REGION, now)).count == 40


@pytest.mark.parametrize("written", [FEW, MANY], ids=["as-before", "as-raised"])
async def test_deliveries_are_found_and_counted_whoever_wrote_them(table, written):
    readers = Deliveries(table, layout(**written, **MORE_READ))
    for shards in (FEW, MANY):
        writers = Deliveries(table, layout(**shards, **MORE_READ))
        for at in (START + timedelta(seconds=number) for number in range(20)):
            await writers.create(delivery(at))

    marks = await readers.due(limit=100)

    assert [mark.at for mark in marks] == sorted(mark.at for mark in marks)
    assert len(marks) == len({mark.key for mark in marks}) == await readers.waiting() == 40


async def test_whoever_reads_fewer_would_miss_some(table):
    """Why the order matters; without this the test above would show nothing."""
    ids = await write(table, layout(**MANY), since=START)

    found = await Jobs(table, Specifications(table, None), layout(**FEW)).ready(REGION, 100)

    assert {entry.job_id for entry in found} < set(ids)


@pytest.mark.parametrize("setting", ["ready_shards", "due_shards"])
def test_no_fewer_can_be_read_than_are_written(setting):
    with pytest.raises(ValidationError, match=f"must be at least 4, as many as are written .GPUFLEET_{setting.upper()}."):
        Settings(**{setting: 4, f"{setting}_read": 3})


def test_as_many_are_read_as_are_written_unless_said():
    assert len(layout(**MANY).deliveries_due()) == len(layout(**MANY).due_partitions(REGION)) == 4
    assert len(layout(**FEW, **MORE_READ).deliveries_due()) == 4
