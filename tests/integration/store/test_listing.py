"""Lists of jobs over the emulator's indexes."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from shared.errors import InvalidError
from shared.ids import RandomIds
from shared.jobs import transitions
from shared.jobs.model import Head
from shared.jobs.states import State
from shared.store import cursors, items, keys
from shared.store.history import History
from shared.store.jobs import Jobs
from shared.store.listing import Filters, Listing
from shared.store.specifications import Specifications
from shared.store.table import Table

REGIONS = ("us-east-1", "eu-west-1")
START = datetime(2026, 1, 1, tzinfo=UTC)
_number = count()


@pytest.fixture
def table(fleet_resources):
    return Table(fleet_resources.aws.dynamodb, fleet_resources.settings.table)


@pytest.fixture
def listing(table):
    return Listing(table, REGIONS)


def job(*, state=State.QUEUED, region="us-east-1", namespace="gco-jobs", **more):
    at = START + timedelta(seconds=next(_number))
    fields = {"priority": 0, "revision": 1, "fence": 0, "spec_version": 1, "spec_hash": "x", "gpus": 0, "stamp": "0" * 16} | more
    return Head(
        id=RandomIds().job(), name="train", namespace=namespace, region=region, state=state, submitted_at=at, updated_at=at, **fields
    )


async def put(table, *heads):
    for head in heads:
        await table.put(items.head_item(head, keys.Layout()))
    return [head.id for head in heads]


async def walk(listing, filters, *, limit):
    """All pages of a list: their ids, and how many pages there were."""
    found, pages, cursor = [], 0, None
    while True:
        page = await listing.page(filters, limit=limit, cursor=cursor)
        found += [head.id for head in page.heads]
        pages, cursor = pages + 1, page.cursor
        if cursor is None:
            return found, pages


async def test_pages_of_a_mixed_list_hold_every_job_once_newest_first(table, listing):
    chance = random.Random(7)
    heads = [job(state=chance.choice(list(State)), region=chance.choice(REGIONS)) for _ in range(37)]
    ids = await put(table, *heads)

    found, pages = await walk(listing, Filters(), limit=10)

    assert found == list(reversed(ids))
    assert pages == 4


async def test_a_full_last_page_has_no_cursor(table, listing):
    await put(table, *(job() for _ in range(4)))

    page = await listing.page(Filters(), limit=4)

    assert len(page.heads) == 4
    assert page.cursor is None


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (Filters(region="eu-west-1"), "bd"),
        (Filters(namespaces=frozenset({"other"})), "cd"),
        (Filters(states=frozenset({State.QUEUED, State.FAILED})), "acd"),
        (Filters(region="eu-west-1", states=frozenset({State.RUNNING})), "b"),
        (Filters(namespaces=frozenset({"other"}), states=frozenset({State.FAILED})), "d"),
        (Filters(region="eu-west-1", namespaces=frozenset({"other"})), "d"),
        (Filters(region="eu-west-1", namespaces=frozenset({"other"}), states=frozenset({State.QUEUED})), ""),
    ],
)
async def test_filters_in_any_combination(table, listing, filters, names):
    jobs = {
        "a": job(),
        "b": job(region="eu-west-1", state=State.RUNNING),
        "c": job(namespace="other"),
        "d": job(namespace="other", region="eu-west-1", state=State.FAILED),
    }
    await put(table, *jobs.values())

    found, _ = await walk(listing, filters, limit=10)

    assert {name for name, head in jobs.items() if head.id in found} == set(names)


async def test_region_and_namespace_page_on_past_what_does_not_match(table, listing):
    wanted = [job(namespace="other", region="eu-west-1")]
    await put(table, *wanted)
    await put(table, *(job(namespace="other", region="us-east-1") for _ in range(23)))

    first = await listing.page(Filters(region="eu-west-1", namespaces=frozenset({"other"})), limit=2)
    found, _ = await walk(listing, Filters(region="eu-west-1", namespaces=frozenset({"other"})), limit=2)

    assert first.partial
    assert first.heads == []
    assert first.cursor is not None
    assert found == [wanted[0].id]


async def test_a_job_that_moved_on_is_judged_by_what_it_has_become(table, listing, monkeypatch):
    head = job()
    await put(table, head)
    read = table.query

    async def query_then_change(**query):
        page = await read(**query)
        await table.put(items.head_item(head.model_copy(update={"state": State.RUNNING}), keys.Layout()))
        return page

    monkeypatch.setattr(table, "query", query_then_change)
    any_state = await listing.page(Filters(states=frozenset({State.QUEUED, State.RUNNING})))
    await put(table, head)
    queued = await listing.page(Filters(states=frozenset({State.QUEUED})))

    assert [found.state for found in any_state.heads] == [State.RUNNING]
    assert queued.heads == []


async def test_a_page_costs_the_same_whatever_the_table_holds(fleet_resources):
    spent: Counter[str] = Counter()
    table = Table(fleet_resources.aws.dynamodb, fleet_resources.settings.table, meter=lambda operation, _: spent.update([operation]))
    listing = Listing(table, REGIONS)
    await put(table, *(job() for _ in range(12)))
    spent.clear()
    await listing.page(Filters(), limit=5)
    small = dict(spent)
    await put(table, *(job() for _ in range(60)))
    spent.clear()
    await listing.page(Filters(), limit=5)

    assert dict(spent) == small == {"query": len(State) * len(REGIONS), "batch_get_item": 1}


@pytest.mark.parametrize("cursor", ["", "x", "!!!", "e30", "eyJ2IjoxfQ", "\0", "ünicode", "a" * 3000, "bnVsbA", "W10"])
async def test_a_cursor_that_we_did_not_write_is_refused(listing, cursor):
    with pytest.raises(InvalidError) as refused:
        await listing.page(Filters(), cursor=cursor)

    assert [(problem.pointer, problem.rule) for problem in refused.value.problems] == [("/cursor", cursors.INVALID)]


async def test_a_cursor_of_other_filters_is_refused(table, listing):
    await put(table, *(job() for _ in range(3)))
    page = await listing.page(Filters(region="us-east-1"), limit=1)

    with pytest.raises(InvalidError) as refused:
        await listing.page(Filters(region="eu-west-1"), cursor=page.cursor)

    assert refused.value.problems[0].rule == cursors.OTHER_FILTERS


async def test_events_and_executions_of_a_job_come_in_order(table, fleet_resources):
    jobs = Jobs(table, Specifications(table, None), keys.Layout())
    head = job()
    from shared.jobs.model import Specification

    await jobs.submit(transitions.submitted(head), Specification(job_id=head.id, version=1, manifest={}), None)
    moment = transitions.Moment(now=START + timedelta(days=1), stamp="1" * 16)
    change = transitions.stop_requested(head, transitions.StopIntent.CANCEL, "enough", "me", moment)
    assert change is not None
    now = await jobs.write(change)

    history = History(table)
    assert [(event.number, event.type) for event in await history.events(head.id)] == [(1, "submitted"), (2, "cancelled")]
    assert await history.executions(now) == []
    assert await history.events(RandomIds().job()) == []
