"""How workers keep out of each other's way."""

import random
from uuid import UUID

from shared.jobs.model import ReadyEntry
from shared.jobs.rivals import LANES, Rivals, steps


def entries(count: int, *, fence: int = 0, priority: int = 0) -> list[ReadyEntry]:
    """Jobs of one priority in the ready list of one region, best first."""
    chance = random.Random(7 + priority)
    return [
        ReadyEntry(
            job_id=str(UUID(int=chance.getrandbits(128))),
            region="us-east-1",
            namespace="gco-jobs",
            fence=fence,
            priority=priority,
            order="",
        )
        for _ in range(count)
    ]


def rivals(*, meetings: int = 0) -> Rivals:
    """A worker that has met others so many times, always in the lane that it tried first."""
    found = Rivals(random.Random(1))
    for _ in range(meetings):
        found.met(found.lanes(entries(1000))[0])
    return found


def test_a_worker_alone_takes_the_list_as_it_stands():
    ready = entries(10)
    found = rivals()

    assert found.window(64) == 64
    assert [lane.entries for lane in found.lanes(ready)] == [ready]


def test_a_worker_that_met_another_looks_at_a_wider_window_and_deals_it_into_lanes():
    ready = entries(1000)
    found = rivals(meetings=1)

    lanes = found.lanes(ready)

    assert found.window(64) == 64 * LANES
    assert len(lanes) == LANES
    assert sorted((entry for lane in lanes for entry in lane.entries), key=ready.index) == ready


def test_the_lane_with_the_best_entry_comes_first_and_each_lane_keeps_the_order_of_the_list():
    ready = entries(1000)

    lanes = rivals(meetings=1).lanes(ready)

    assert lanes[0].entries[0] == ready[0]
    positions = [[ready.index(entry) for entry in lane.entries] for lane in lanes]
    assert all(one == sorted(one) for one in positions)
    assert [one[0] for one in positions] == sorted(one[0] for one in positions)


def test_all_workers_deal_the_same_list_alike():
    ready = entries(300)

    dealt = [{lane.number: lane.entries for lane in Rivals.lanes(rivals(meetings=1), ready)} for _ in range(2)]

    assert dealt[0] == dealt[1]


def test_a_lane_in_which_it_was_met_is_left_to_the_other():
    ready = entries(1000)
    found = rivals(meetings=1)
    first = found.lanes(ready)[0]

    found.met(first)

    assert first.number not in {lane.number for lane in found.lanes(ready)}


def test_where_nothing_is_in_its_own_lanes_a_worker_tries_those_of_others():
    ready = entries(1000)
    found = rivals(meetings=1)
    first, second = found.lanes(ready)[:2]
    found.met(first)
    found.met(second)

    lanes = found.lanes(first.entries + second.entries)

    assert [lane.number for lane in lanes] == [first.number, second.number]


def test_looks_without_a_meeting_lead_back_to_the_list_as_it_stands():
    found = rivals(meetings=5)

    for _ in range(500):
        found.quiet()

    assert found.window(64) == 64


def test_an_entry_that_was_won_is_not_tried_again_while_the_index_still_shows_it():
    ready = entries(3)
    found = rivals()

    found.won(ready[1])

    assert found.fresh(ready) == [ready[0], ready[2]]


def test_a_job_that_was_won_and_came_back_is_tried_again():
    found = rivals()
    found.won(entries(1)[0])

    again = entries(1, fence=1)

    assert found.fresh(again) == again


def test_steps_grow_from_one_entry_and_end_at_the_limit():
    assert [len(step) for step in steps(entries(100), 64)] == [1, 4, 16, 43]
    assert [len(step) for step in steps(entries(300), 200)] == [1, 4, 16, 64, 64, 51]
    assert [len(step) for step in steps(entries(3), 64)] == [1, 2]
    assert [len(step) for step in steps(entries(3), 0)] == []


def test_a_higher_priority_goes_first_whatever_the_lanes():
    urgent, plain = entries(200, priority=50), entries(200)
    found = rivals(meetings=3)

    tried = [entry.priority for lane in found.lanes([*urgent, *plain]) for entry in lane.entries]

    assert tried == sorted(tried, reverse=True)


def test_what_another_leaves_lying_is_taken_before_anything_of_lower_priority():
    plain = entries(1000)
    found = rivals(meetings=1)
    left = found.lanes(plain)[0]
    found.met(left)
    urgent = next(entry for entry in entries(1000, priority=50) if Rivals.lanes(rivals(meetings=1), [entry])[0].number == left.number)

    first = [entry for lane in found.lanes([urgent, *plain]) for entry in lane.entries]
    second = [entry for lane in found.lanes([urgent, *plain]) for entry in lane.entries]

    assert urgent not in first
    assert second[0] == urgent
