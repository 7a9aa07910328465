"""Rejection records in the table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import NotFoundError, Problem
from shared.store.rejections import Rejection, Rejections, excerpt, told
from shared.store.table import Table

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def rejections(fleet_resources):
    return Rejections(Table(fleet_resources.aws.dynamodb, fleet_resources.settings.table))


def rejection(number):
    return Rejection(
        id=f"message-{number}",
        reason="Problem",
        problems=told([Problem(pointer="/manifest", value=3, rule="must be an object")]),
        message_id=f"message-{number}",
        queue="submissions",
        reference="order 7",
        rejected_at=START + timedelta(seconds=number),
        excerpt="{}",
    )


async def test_rejections_are_listed_newest_first_and_page_on(rejections):
    for number in range(5):
        await rejections.put(rejection(number))

    first = await rejections.page(limit=3)
    second = await rejections.page(limit=3, cursor=first.cursor)

    assert [one.id for one in first.rejections] == ["message-4", "message-3", "message-2"]
    assert [one.id for one in second.rejections] == ["message-1", "message-0"]
    assert second.cursor is None


async def test_a_message_that_is_refused_twice_is_one_rejection(rejections):
    await rejections.put(rejection(1))
    await rejections.put(rejection(1))

    assert len((await rejections.page()).rejections) == 1
    assert await rejections.get("message-1") == rejection(1)


async def test_values_are_kept_as_json_has_them(rejections):
    values = [None, True, 5, 5.5, "a b", "5", "x" * 1000, {"secret": 1}, ["secret"], 10**30, float("nan"), "\ud800"]
    problems = told(Problem(pointer="", value=value, rule="must be something else") for value in values)
    await rejections.put(rejection(1).model_copy(update={"problems": problems}))

    found = [problem.value for problem in (await rejections.get("message-1")).problems]

    assert found == [None, True, 5, 5.5, "a b", "5", "x" * 117 + "...", None, None, None, "nan", "?"]
    assert [type(value) for value in found[1:4]] == [bool, int, float]


@pytest.mark.parametrize("rejection_id", ["unknown", "", "x" * 5000])
async def test_an_unknown_rejection_is_not_found(rejections, rejection_id):
    with pytest.raises(NotFoundError):
        await rejections.get(rejection_id)


async def test_a_rejection_expires(rejections, fleet_resources):
    await rejections.put(rejection(1))
    key = {"pk": {"S": "REJECTION#message-1"}, "sk": {"S": "REJECTION"}}
    item = (await fleet_resources.aws.dynamodb.get_item(TableName=fleet_resources.settings.table, Key=key))["Item"]

    assert int(item["expires"]["N"]) == int((START + timedelta(days=30, seconds=1)).timestamp())


def test_an_excerpt_is_cut_between_characters():
    assert excerpt("é" * 2000) == "é" * 1024
    assert excerpt("\ud800") == "?"
