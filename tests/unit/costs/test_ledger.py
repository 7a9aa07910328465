"""The observer's memory, and what a reader makes of what several observers wrote."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from shared.costs.ledger import Ledger
from shared.costs.model import Window
from shared.costs.usage_documents import decode, document_key, encode, hour_of
from shared.costs.usage_reader import UsageReader
from tests.unit.costs.builders import REGION, at, node, pod, window

TEN = window("10:00", "11:00")


@dataclass
class Bucket:
    """Objects in memory, with the calls of the real one."""

    objects: dict[str, bytes] = field(default_factory=dict)

    async def get(self, key, *, bucket=None, limit=None):
        return self.objects.get(key)

    async def listed(self, prefix, *, limit=None):
        @dataclass
        class One:
            key: str

        return [One(key) for key in sorted(self.objects) if key.startswith(prefix)]


@dataclass
class Stopped:
    time: datetime

    def now(self):
        return self.time


class Observer:
    """A ledger that is fed and written as an observer does it, at times that a test says."""

    def __init__(self, bucket: Bucket, name: str = "o1", **options):
        self.bucket = bucket
        self.ledger = Ledger(region=REGION, cluster=REGION, observer=name, **options)

    def starts(self, time: str, *, nodes=(), pods=()) -> Observer:
        self.ledger.nodes.listed(nodes, at=at(time))
        self.ledger.pods.listed(pods, at=at(time))
        self.ledger.tick(at(time))
        self.time = at(time)
        return self

    def until(self, time: str | datetime) -> Observer:
        """The time goes on, in steps as an observer has them."""
        end = at(time) if isinstance(time, str) else time
        while self.time < end:
            self.time = min(self.time + timedelta(seconds=15), end)
            self.ledger.tick(self.time)
        return self

    def writes_all(self) -> Observer:
        for hour in self.ledger.pending:
            document = self.ledger.take(hour)
            self.bucket.objects[document_key(document)] = encode(document)
        return self


@pytest.fixture
def bucket():
    return Bucket()


async def usage(bucket, window=TEN, now="23:59"):
    return await UsageReader(objects=bucket, clock=Stopped(at(now))).usage(REGION, window)


def spans(found):
    return {one.uid: (one.start, one.end) for one in found}


async def test_what_is_written_is_what_is_read(bucket):
    nodes, pods = [node(zone=None)], [pod(start="10:05", end="10:20", labels={"team": "vision"})]
    Observer(bucket).starts("09:30", nodes=nodes, pods=pods).until("11:10").writes_all()
    found = await usage(bucket)
    assert (found.nodes, found.pods) == (nodes, pods)
    assert (found.complete_to, found.gaps, found.final, found.all_pods) == (at("11:00"), [], True, False)


def test_keys_name_region_day_hour_and_observer(bucket):
    Observer(bucket).starts("09:30").until("10:10").writes_all()
    assert sorted(bucket.objects) == [f"usage/region={REGION}/date=2026-05-17/hour={hour}/o1.json.gz" for hour in ("09", "10")]


async def test_a_pod_that_is_deleted_ends_when_it_said_and_else_when_it_was_seen_to_be_gone(bucket):
    observer = Observer(bucket).starts("10:00", nodes=[node()], pods=[pod("a", "10:00"), pod("b", "10:00")]).until("10:30")
    observer.ledger.pods.gone(pod("a", "10:00", "10:29"), at=at("10:30"))
    observer.ledger.pods.gone(pod("b", "10:00"), at=at("10:30"))
    observer.until("11:01").writes_all()
    assert spans((await usage(bucket)).pods) == {"a": (at("10:00"), at("10:29")), "b": (at("10:00"), at("10:30"))}


async def test_what_a_new_list_no_longer_has_is_gone(bucket):
    observer = Observer(bucket).starts("10:00", nodes=[node("n1"), node("n2")]).until("10:20")
    observer.ledger.nodes.listed([node("n2")], at=at("10:20"))
    observer.until("11:01").writes_all()
    assert spans((await usage(bucket)).nodes) == {"n1": (at("00:00"), at("10:20")), "n2": (at("00:00"), None)}


async def test_a_gpu_node_keeps_the_gpus_that_it_had(bucket):
    observer = Observer(bucket).starts("10:00", nodes=[node(gpus=0)]).until("10:05")
    observer.ledger.nodes.put(node(gpus=4))
    observer.ledger.nodes.put(node(gpus=0))
    observer.until("11:01").writes_all()
    assert (await usage(bucket)).nodes[0].gpus == 4


async def test_an_observer_of_an_earlier_release_does_not_take_a_job_its_name(bucket):
    Observer(bucket, "o1").starts("10:00", pods=[pod("a", "10:00", job_name=None)]).until("10:30").writes_all()
    Observer(bucket, "o2").starts("10:10", pods=[pod("a", "10:00")]).until("11:01").writes_all()

    assert [one.job_name for one in (await usage(bucket)).pods] == ["train"]


@pytest.mark.parametrize("order", [("o1", "o2"), ("o2", "o1")])
async def test_nor_the_labels_of_its_job(bucket, order):
    earlier, later = order
    Observer(bucket, earlier).starts("10:00", pods=[pod("a", "10:00", labels={"a": "b"})]).until("10:30").writes_all()
    Observer(bucket, later).starts("10:10", pods=[pod("a", "10:00", labels={"a": "b", "team": "vision"})]).until("11:01").writes_all()

    assert [one.labels for one in (await usage(bucket)).pods] == [{"a": "b", "team": "vision"}]


async def test_two_observers_tell_of_one_cluster(bucket):
    Observer(bucket, "o1").starts("10:00", nodes=[node()], pods=[pod("a", "10:00")]).until("10:30").writes_all()
    second = Observer(bucket, "o2").starts("10:10", nodes=[node(), node("n2", "10:10")], pods=[pod("a", "10:00")]).until("10:45")
    second.ledger.pods.put(pod("a", "10:00", "10:40"))
    second.ledger.pods.put(pod("b", "10:42"))
    second.until("11:01").writes_all()
    found = await usage(bucket)
    assert spans(found.pods) == {"a": (at("10:00"), at("10:40")), "b": (at("10:42"), None)}
    assert len(found.nodes) == 2
    assert found.gaps == []


async def test_a_restart_is_no_gap_and_loses_nothing_that_is_still_listed(bucket):
    Observer(bucket, "o1").starts("10:00", nodes=[node()], pods=[pod("a", "10:00")]).until("10:30").writes_all()
    Observer(bucket, "o2").starts("10:31", nodes=[node()], pods=[pod("a", "10:00", "10:30:20")]).until("11:01").writes_all()
    found = await usage(bucket)
    assert (found.gaps, found.complete_to) == ([], at("11:00"))
    assert spans(found.pods) == {"a": (at("10:00"), at("10:30:20"))}


async def test_what_is_longer_than_a_restart_is_a_gap(bucket):
    Observer(bucket, "o1").starts("10:00", nodes=[node()]).until("10:30").writes_all()
    Observer(bucket, "o2").starts("10:32:15", nodes=[node()]).until("11:01").writes_all()
    assert (await usage(bucket)).gaps == [window("10:30", "10:32:15")]


async def test_a_time_without_an_observer_is_a_gap_and_the_next_one_tells_what_outlived_it(bucket):
    first = [pod("over", "10:00"), pod("ended", "10:00"), pod("lost", "10:00")]
    Observer(bucket, "o1").starts("09:00", nodes=[node(), node("n2")], pods=first).until("10:30").writes_all()
    second = [pod("over", "10:00"), pod("ended", "10:00", "10:50"), pod("within", "10:45", "11:10")]
    Observer(bucket, "o2").starts("13:20", nodes=[node()], pods=second).until("13:30").writes_all()
    found = await usage(bucket)
    assert (found.complete_to, found.gaps, found.final) == (at("10:30"), [window("10:30", "11:00")], True)
    assert spans(found.pods) == {
        "over": (at("10:00"), None),
        "ended": (at("10:00"), at("10:50")),
        "lost": (at("10:00"), at("10:30")),  # when it was last seen
        "within": (at("10:45"), at("11:10")),
    }
    assert spans(found.nodes) == {"n1": (at("00:00"), None), "n2": (at("00:00"), at("10:30"))}


async def test_a_window_of_which_not_all_is_written_yet_says_up_to_where_it_is(bucket):
    Observer(bucket).starts("09:50", nodes=[node()], pods=[pod(start="10:00")]).until("10:59:50").writes_all()
    found = await usage(bucket, now="11:00")
    assert (found.complete_to, found.gaps, found.final) == (at("10:59:50"), [window("10:59:50", "11:00")], False)
    assert spans(found.pods) == {"p1": (at("10:00"), at("10:59:50"))}


async def test_a_region_that_was_without_an_observer_for_days_still_pays_for_nodes_that_outlived_them(bucket):
    Observer(bucket, "o1").starts("08:30", nodes=[node("n1"), node("n2")]).until("09:30").writes_all()
    late = Observer(bucket, "o2")
    late.ledger.nodes.listed([node("n1")], at=at("12:00", 20))
    late.ledger.pods.listed([], at=at("12:00", 20))
    late.time = at("11:59:45", 20)
    late.until(at("12:10", 20)).writes_all()

    found = await UsageReader(objects=bucket, clock=Stopped(at("12:30", 20))).usage(REGION, window("10:00", "11:00", day=18))

    assert spans(found.nodes) == {"n1": (at("00:00"), None)}
    assert ([(gap.start, gap.end) for gap in found.gaps], found.final) == ([(at("10:00", 18), at("11:00", 18))], True)


async def test_where_nobody_watched_all_of_the_window_is_a_gap(bucket):
    found = await usage(bucket)
    assert (found.nodes, found.pods, found.complete_to, found.gaps, found.final) == ([], [], at("10:00"), [TEN], False)


async def test_an_observer_that_was_frozen_was_not_watching(bucket):
    observer = Observer(bucket).starts("10:00", nodes=[node()]).until("10:10")
    observer.time = at("10:40")
    observer.ledger.tick(observer.time)
    observer.until("11:01").writes_all()
    assert (await usage(bucket)).gaps == [window("10:10", "10:40")]


async def test_what_ended_while_an_observer_was_frozen_is_told_of_the_hour_in_which_it_did(bucket):
    observer = Observer(bucket).starts("10:00", nodes=[node()], pods=[pod("a", "10:00")]).until("10:10")
    observer.time = at("12:10")
    observer.ledger.tick(observer.time)
    observer.ledger.pods.put(pod("a", "10:00", "11:30"))
    observer.until("12:30").writes_all()
    found = await usage(bucket, window("11:00", "12:00"))
    assert (found.gaps, spans(found.pods)) == ([window("11:00", "12:00")], {"a": (at("10:00"), at("11:30"))})
    assert spans(found.nodes) == {"n1": (at("00:00"), None)}


async def test_late_news_of_an_hour_are_written_into_it(bucket):
    observer = Observer(bucket).starts("10:00", nodes=[node()], pods=[pod("a", "10:00")]).until("11:00:15").writes_all()
    observer.ledger.pods.put(pod("a", "10:00", "10:58"))
    observer.ledger.pods.put(pod("b", "10:57", "10:59"))
    observer.until("11:01").writes_all()
    expected = {"a": (at("10:00"), at("10:58")), "b": (at("10:57"), at("10:59"))}
    assert spans((await usage(bucket)).pods) == expected


@pytest.mark.parametrize("time", ["10:00", "10:10"])
async def test_a_pod_that_was_there_for_no_time_is_told(bucket, time):
    Observer(bucket).starts("09:00", pods=[pod(start=time, end=time)]).until("11:01").writes_all()
    assert spans((await usage(bucket)).pods) == {"p1": (at(time), at(time))}
    assert (await usage(bucket, window("11:00", "11:01"))).pods == []


async def test_a_window_across_hours_tells_each_pod_once(bucket):
    observer = Observer(bucket).starts("08:00", nodes=[node()], pods=[pod("long", "08:00")]).until("08:30").writes_all()
    for hour in (9, 10, 11):
        observer.until(f"{hour:02d}:30").writes_all()
    observer.ledger.pods.put(pod("long", "08:00", "11:20"))
    observer.until("12:01").writes_all()
    found = await usage(bucket, window("08:10", "12:00"))
    assert spans(found.pods) == {"long": (at("08:00"), at("11:20"))}
    assert found.gaps == []


def test_what_is_over_and_written_is_forgotten():
    observer = Observer(Bucket()).starts("00:00", nodes=[node()])
    for minute in range(600):
        start = at("00:00") + timedelta(minutes=minute)
        observer.until(start)
        observer.ledger.pods.put(pod(f"p{minute}", start, start + timedelta(seconds=30)))
        observer.writes_all()
    assert len(observer.ledger.pods) <= 3 * 60
    assert len(observer.ledger.nodes) == 1
    assert max(len(gzip.decompress(data)) for data in observer.bucket.objects.values()) < 61 * 600


def test_pods_that_are_listed_again_and_again_long_after_their_end_are_not_kept_again():
    old = [pod(f"p{number}", "00:10", "00:20") for number in range(50)]
    observer = Observer(Bucket()).starts("00:00", pods=old)
    for hour in range(1, 6):
        observer.until(f"0{hour}:30").writes_all()
    observer.ledger.pods.listed(old, at=at("05:30"))
    assert len(observer.ledger.pods) == 0
    assert observer.ledger.pending == []


def test_hours_that_can_not_be_written_are_kept_for_a_day():
    observer = Observer(Bucket()).starts("00:00", pods=[pod("a", "00:00", "00:30")])
    observer.until(at("12:00"))
    assert len(observer.ledger.pending) == 12
    assert len(observer.ledger.pods) == 1
    observer.until(at("06:00", 18))
    assert len(observer.ledger.pending) <= 25


def test_an_hour_that_could_not_be_written_is_still_to_be_written():
    observer = Observer(Bucket()).starts("10:00").until("10:30")
    observer.ledger.take(hour_of(at("10:30")))
    assert observer.ledger.pending == []
    observer.ledger.put_back(hour_of(at("10:30")))
    assert observer.ledger.pending == [at("10:00")]


def test_before_everything_was_listed_nothing_is_covered():
    ledger = Ledger(region=REGION, cluster=REGION, observer="o", all_pods=True)
    ledger.nodes.listed([node()], at=at("10:00"))
    ledger.pods.listed([], at=at("10:00"))
    for second in (0, 10):
        ledger.tick(at(f"10:00:{second:02d}"))
    assert ledger.pending == []
    ledger.others.listed([], at=at("10:00:10"))
    for second in (20, 30):
        ledger.tick(at(f"10:00:{second:02d}"))
    document = ledger.take(at("10:00"))
    assert document.covered == [window("10:00:20", "10:00:30")]


async def test_only_where_every_observer_watched_all_pods_were_all_watched(bucket):
    all_pods = Observer(bucket, "o1", all_pods=True)
    all_pods.ledger.others.listed([pod("x", "10:00", job_id=None)], at=at("10:00"))
    all_pods.starts("10:00").until("11:01").writes_all()
    assert (await usage(bucket)).all_pods
    assert spans((await usage(bucket)).pods) == {"x": (at("10:00"), None)}
    Observer(bucket, "o2").starts("10:10").until("10:20").writes_all()
    assert not (await usage(bucket)).all_pods


@pytest.mark.parametrize(
    "broken", [b"", b"{}", gzip.compress(b"{}", mtime=0), gzip.compress(b'{"version": 1}', mtime=0)[:-4], gzip.compress(b"\xff", mtime=0)]
)
async def test_an_object_that_is_no_document_is_left_out_and_its_time_is_a_gap(bucket, broken):
    Observer(bucket).starts("10:00", nodes=[node()]).until("11:10").writes_all()
    bucket.objects[f"usage/region={REGION}/date=2026-05-17/hour=10/o1.json.gz"] = broken
    found = await usage(bucket)
    assert found.gaps == [TEN]
    assert spans(found.nodes) == {"n1": (at("00:00"), None)}  # as the hour after it tells


def test_a_document_of_another_version_is_refused(bucket):
    Observer(bucket).starts("10:00").until("10:10").writes_all()
    (data,) = bucket.objects.values()
    with pytest.raises(ValueError, match="version 2"):
        decode(encode(replace(decode(data), version=2)))


def test_a_document_keeps_every_digit():
    observer = Observer(Bucket()).starts("10:00", pods=[pod(cores=Decimal("1e-9"), start=at("10:00") + timedelta(microseconds=1))])
    observer.until("10:10").writes_all()
    (data,) = observer.bucket.objects.values()
    (found,) = decode(data).pods
    assert (str(found.cores), found.start.microsecond) == ("1E-9", 1)


async def test_a_clock_that_goes_back_does_no_harm(bucket):
    observer = Observer(bucket).starts("10:00", nodes=[node()]).until("10:30")
    observer.time = at("10:29")
    observer.until("11:01").writes_all()
    found = await usage(bucket)
    assert (found.gaps, spans(found.nodes)) == ([], {"n1": (at("00:00"), None)})
    assert Window(at("10:00"), at("11:00")) == found.window
