"""Templates in the table: versions that never change, a list that costs the same at any size, an exact count."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import ConflictError, InvalidError, NotFoundError
from shared.store import templates as template_store
from shared.store.objects import S3Objects
from shared.store.table import Table
from shared.store.templates import Templates
from shared.store.totals import TEMPLATES, Totals
from shared.templates.model import Content

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def table(fleet_resources):
    return Table(fleet_resources.aws.dynamodb, fleet_resources.settings.table)


@pytest.fixture
def templates(table, fleet_resources):
    return Templates(table, S3Objects(fleet_resources.aws.s3, fleet_resources.settings.bucket))


def content(mark=1, **parameters):
    return Content(manifest={"kind": "Job", "mark": mark}, parameters=parameters, description=f"number {mark}")


def anybody(_):
    pass


async def create(templates, name="t", mark=1, at=NOW):
    return await templates.create(name, content(mark), at=at, by="ann")


async def test_a_template_is_read_as_it_was_written(templates, table):
    written = Content(manifest={"a": [1, 1.5, True, None, "é", {"b": 2**62}]}, parameters={"x": 0.1}, description="what")
    made = await templates.create("t", written, at=NOW, by="ann")
    read = await templates.get("t")

    assert read == made
    assert read.content == written
    assert read.reference == "t@1"
    assert await Totals(table).of([TEMPLATES]) == {TEMPLATES: 1}


async def test_a_second_of_the_same_name_is_a_conflict(templates):
    await create(templates)

    with pytest.raises(ConflictError, match="Template 't' already exists"):
        await create(templates)


async def test_every_version_can_be_read(templates):
    await create(templates)
    await templates.replace("t", content(2), at=NOW + timedelta(hours=1), by="bob", allowed=anybody)

    first, second = await templates.get("t", 1), await templates.get("t")

    assert (first.content.manifest["mark"], second.content.manifest["mark"]) == (1, 2)
    assert (first.head.version, first.head.updated_by, first.head.description) == (1, "ann", "number 1")
    assert (second.head.version, second.head.updated_by, second.head.created_by) == (2, "bob", "ann")
    assert (second.head.created_at, second.head.updated_at) == (NOW, NOW + timedelta(hours=1))
    with pytest.raises(NotFoundError, match="its versions are 1 to 2"):
        await templates.get("t", 3)


async def test_what_is_made_again_after_a_deletion_counts_on(templates, table):
    await create(templates)
    await templates.delete("t", at=NOW, allowed=anybody)

    with pytest.raises(NotFoundError):
        await templates.get("t")
    with pytest.raises(NotFoundError):
        await templates.delete("t", at=NOW, allowed=anybody)
    with pytest.raises(NotFoundError):
        await templates.replace("t", content(2), at=NOW, by="ann", allowed=anybody)
    gone = await templates.get("t", 1)
    assert (gone.content.manifest["mark"], gone.head.deleted_at) == (1, NOW)
    assert await Totals(table).of([TEMPLATES]) == {TEMPLATES: 0}

    again = await create(templates, mark=5)
    assert again.reference == "t@2"
    assert (await templates.get("t", 1)).content.manifest["mark"] == 1
    assert (await templates.get("t")).head.deleted_at is None
    assert await Totals(table).of([TEMPLATES]) == {TEMPLATES: 1}


async def test_of_many_that_create_at_once_one_succeeds(templates, table):
    found = await asyncio.gather(*(create(templates, mark=mark) for mark in range(8)), return_exceptions=True)

    [made] = [one for one in found if not isinstance(one, Exception)]
    assert all(isinstance(one, ConflictError) for one in found if isinstance(one, Exception))
    assert (await templates.get("t")).content == made.content
    assert await Totals(table).of([TEMPLATES]) == {TEMPLATES: 1}


async def test_those_that_change_at_once_all_leave_a_version(templates):
    await create(templates)
    made = await asyncio.gather(
        *(templates.replace("t", content(mark), at=NOW, by="ann", allowed=anybody) for mark in range(2, 22)),
    )

    assert sorted(one.head.version for one in made) == list(range(2, 22))
    for one in made:
        assert (await templates.get("t", one.head.version)).content == one.content


async def test_a_change_that_stays_contested_is_a_conflict(templates, table, monkeypatch):
    """Whenever it has looked, somebody else is faster."""
    await create(templates)
    monkeypatch.setattr(template_store, "_CONTESTED_SECONDS", 0.2)
    faster, read, number = Templates(table, templates._contents._objects), templates._head, iter(range(2, 10_000))

    async def overtaken(name):
        found = await read(name)
        await faster.replace(name, content(next(number)), at=NOW, by="bob", allowed=anybody)
        return found

    monkeypatch.setattr(templates, "_head", overtaken)
    with pytest.raises(ConflictError, match="Template 't' is changed by many at the same time"):
        await templates.replace("t", content(0), at=NOW, by="ann", allowed=anybody)

    stands = await faster.get("t")
    assert (stands.head.updated_by, stands.head.version > 2) == ("bob", True)


async def test_a_page_is_filled_with_those_that_are_seen(templates):
    for number in range(12):
        await create(templates, f"t{number:02}", at=NOW + timedelta(seconds=number))

    def seen(head):
        return int(head.name[1:]) % 4 == 0

    first = await templates.page(limit=3, sees=seen)
    second = await templates.page(limit=3, cursor=first.cursor, sees=seen)
    none = await templates.page(limit=2, sees=lambda _: False)

    assert [[head.name for head in page.heads] for page in (first, second, none)] == [["t08", "t04"], ["t00"], []]
    assert (first.cursor is not None, second.cursor, none.cursor is not None) == (True, None, True)


async def test_the_list_is_newest_first_and_pages_on(templates):
    for number in range(5):
        await create(templates, name=f"t{number}", at=NOW + timedelta(seconds=number))
    await templates.delete("t3", at=NOW, allowed=anybody)

    first = await templates.page(limit=2)
    second = await templates.page(limit=2, cursor=first.cursor)

    assert [head.name for head in first.heads + second.heads] == ["t4", "t2", "t1", "t0"]
    assert second.cursor is None
    with pytest.raises(InvalidError):
        await templates.page(limit=2, cursor="nonsense")


async def test_a_content_that_no_item_holds_is_in_s3(templates, table, fleet_resources):
    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyzé", k=900_000))
    large = Content(manifest={"noise": noise})
    await templates.create("big", large, at=NOW, by="ann")
    stored = await fleet_resources.aws.s3.list_objects_v2(Bucket=fleet_resources.settings.bucket, Prefix="templates/big/")

    assert stored["KeyCount"] == 1
    assert (await templates.get("big")).content == large
