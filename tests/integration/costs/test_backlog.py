"""Which windows want a report."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from shared.costs.model import Window
from shared.costs.report_keys import ReportKeys
from shared.costs.usage_documents import UsageDocument, document_key, encode
from tests.integration.costs.conftest import Hands
from tests.unit.costs.builders import REGION, at, node

HOUR = timedelta(hours=1)


def hour(start: datetime) -> Window:
    return Window(start, start + HOUR)


def _seen(costs, clock: str):
    """The backlog as it is at a time of that day; the reports are written later, when they are final at once."""
    return replace(costs, clock=Hands(at(clock))).backlog()


async def test_windows_that_were_missed_in_a_pause_are_made_oldest_first(costs):
    costs.told.nodes = [node("n1")]
    await costs.begins(at("07:00"))
    backlog, reporter = costs.backlog(), costs.reporter()
    costs.clock.at = at("09:01")
    for one in await backlog.due():
        await reporter.report(one)
    assert [one.start for one in costs.told.asked] == [at("07:00"), at("08:00")]

    costs.clock.at = at("13:59")

    settling = hour(at("08:00"))  # written a minute after its end, when news of it could still come
    assert await backlog.due() == [*(hour(at(f"{number:02d}:00")) for number in (9, 10, 11, 12)), settling]
    assert await backlog.due(limit=3) == [hour(at(f"{number:02d}:00")) for number in (9, 10, 11)]


async def test_a_window_in_the_middle_is_filled_in(costs):
    costs.told.nodes = [node("n1")]
    await costs.begins(at("07:00"))
    for start in ("07:00", "09:00"):
        await costs.reporter().report(hour(at(start)))

    assert await _seen(costs, "10:00").due() == [hour(at("08:00"))]


async def test_nothing_is_due_before_an_observer_told_and_none_without_one(costs):
    assert await costs.backlog().due() == []

    await costs.begins(datetime(2026, 5, 18, 10, tzinfo=UTC))

    assert await costs.backlog().due() == [hour(datetime(2026, 5, 18, number, tzinfo=UTC)) for number in (10, 11)]


async def test_it_looks_back_so_far_and_no_farther(costs):
    await costs.begins(datetime(2026, 5, 1, 0, tzinfo=UTC))
    await costs.begins(datetime(2026, 5, 17, 13, tzinfo=UTC))

    found = await costs.backlog(days=1).due(limit=100)

    assert found[0].start == datetime(2026, 5, 17, 13, tzinfo=UTC)
    assert len(found) == 23


async def test_reports_of_a_part_are_due_until_they_are_final_after_those_that_are_missing(costs):
    costs.told.nodes = [node("n1")]
    costs.told.until = at("08:10")
    await costs.begins(at("07:00"))
    backlog = _seen(costs, "10:00")
    for start in ("07:00", "08:00"):
        await costs.reporter().report(hour(at(start)))

    assert await backlog.due() == [hour(at("09:00")), hour(at("08:00"))]
    assert await backlog.due(limit=1) == [hour(at("09:00"))]
    costs.told.until = at("10:30")

    for one in await _seen(costs, "10:00").due():
        await costs.reporter().report(one)
    assert await backlog.due() == []
    assert all([(await costs.store.summary(ReportKeys.scheduled(REGION, hour(at(f"0{number}:00"))))).final for number in (7, 8, 9)])


async def test_what_stays_unfinished_is_looked_at_less_and_less(costs):
    costs.told.nodes = [node("n1")]
    costs.told.until = at("07:30")
    await costs.begins(at("07:00"))
    costs.clock.at = at("08:00")
    backlog = costs.backlog()
    await costs.reporter().report(hour(at("07:00")))
    looks = []
    for minute in range(0, 24 * 60, 5):
        costs.clock.at = at("08:00") + timedelta(minutes=minute)
        looks += [minute for one in await backlog.due(limit=30) if one.start == at("07:00")]

    assert looks[:4] == [0, 5, 10, 15]
    assert 30 < len(looks) < 45
    assert looks[-1] - looks[-2] > 100


async def test_windows_begin_with_the_first_observer_not_with_his_hour(costs):
    document = UsageDocument(
        version=1,
        region=REGION,
        cluster=REGION,
        observer="o",
        hour=at("07:00"),
        all_pods=True,
        covered=[Window(at("07:20"), at("08:00"))],
        nodes=[],
        pods=[],
    )
    await costs.objects.put(document_key(document), encode(document))
    await costs.begins(at("08:00"))
    costs.clock.at = at("08:00")

    found = await costs.backlog(minutes=15).due()

    assert [f"{one.start:%H:%M}" for one in found] == ["07:15", "07:30", "07:45"]


async def test_what_is_final_is_not_asked_for_again(costs):
    costs.told.nodes = [node("n1")]
    await costs.begins(at("07:00"))
    backlog = _seen(costs, "10:00")
    for one in await backlog.due():
        await costs.reporter().report(one)
    assert await backlog.due() == []
    asked = []
    summary = costs.store.summary

    async def counted(keys):
        asked.append(keys)
        return await summary(keys)

    costs.store.summary = counted

    assert await backlog.due() == []
    assert asked == []


async def test_what_another_schedule_has_reported_is_not_reported_twice(costs):
    costs.told.nodes = [node("n1")]
    await costs.begins(at("07:00"))
    costs.clock.at = at("09:20")
    for start in ("07:00", "08:00"):
        await costs.reporter().report(hour(at(start)))

    found = await replace(costs).backlog(minutes=15).due()

    assert found == [Window(at("09:00"), at("09:15"))]
