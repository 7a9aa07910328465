"""Whatever came and went, and whichever observers were there: nothing is made up, and where there is no gap nothing is missing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.costs.ledger import Ledger
from shared.costs.model import Window
from shared.costs.usage_documents import document_key, encode
from shared.costs.usage_reader import RESTART, UsageReader
from tests.unit.costs.builders import REGION, at, node, pod
from tests.unit.costs.test_ledger import Bucket, Stopped

STEP = 15
WRITE = 600
SECONDS = 4 * 3600
BEGIN = at("08:00")
LINGERS = int(RESTART.total_seconds()) + 2 * STEP
"""What has ended can still be listed for longer than an observer may be away unnoticed."""


def time(second):
    return BEGIN + timedelta(seconds=second)


@dataclass(frozen=True)
class Truth:
    """A pod: when it began, ended, and was deleted."""

    uid: str
    start: int
    end: int
    deleted: int

    def seen(self, second):
        return pod(self.uid, time(self.start), time(self.end) if self.end <= second else None)

    def listed(self, second):
        return self.start <= second < self.deleted


@dataclass(frozen=True)
class Watcher:
    """An observer: from when to when it was there, and whether it was killed."""

    name: str
    up: int
    down: int
    killed: bool


@st.composite
def truths(draw):
    found = []
    for number in range(draw(st.integers(1, 8))):
        start = draw(st.integers(0, SECONDS))
        end = start + draw(st.sampled_from([0, 1, 40, 300, 3000, SECONDS]))
        found.append(Truth(f"p{number}", start, end, end + LINGERS + draw(st.integers(0, 4000))))
    return found


@st.composite
def watchers(draw):
    found = []
    for number in range(draw(st.integers(0, 4))):
        up = draw(st.integers(0, SECONDS // STEP)) * STEP
        down = min(SECONDS + 600, up + draw(st.integers(1, SECONDS // STEP)) * STEP)
        found.append(Watcher(f"o{number}", up, down, draw(st.booleans())))
    if draw(st.booleans()):  # often somebody is there all the time
        found.append(Watcher("always", 0, SECONDS + 600, killed=False))
    return found


def watch(watcher: Watcher, pods: list[Truth], bucket: Bucket) -> None:
    """All of an observer's life."""
    ledger = Ledger(region=REGION, cluster=REGION, observer=watcher.name)
    ledger.nodes.listed([node()], at=time(watcher.up))
    ledger.pods.listed([one.seen(watcher.up) for one in pods if one.listed(watcher.up)], at=time(watcher.up))
    ledger.tick(time(watcher.up))
    for second in range(watcher.up + STEP, watcher.down + 1, STEP):
        for one in pods:
            for event in (one.start, one.end):
                if second - STEP < event <= second and one.listed(second):
                    ledger.pods.put(one.seen(second))
            if second - STEP < one.deleted <= second:
                ledger.pods.gone(one.seen(second), at=time(second))
        ledger.tick(time(second))
        if second % WRITE == 0 or second % 3600 < STEP:
            write(ledger, bucket)
    if not watcher.killed:
        write(ledger, bucket)


def write(ledger: Ledger, bucket: Bucket) -> None:
    for hour in ledger.pending:
        document = ledger.take(hour)
        bucket.objects[document_key(document)] = encode(document)


@settings(deadline=None, max_examples=80)
@given(truths(), watchers(), st.integers(0, SECONDS - 600), st.integers(300, 7200))
def test_what_is_told_is_true_and_without_gaps_it_is_all(pods, observers, begin, length):
    bucket = Bucket()
    for one in observers:
        watch(one, pods, bucket)
    window = Window(time(begin), time(min(begin + length, SECONDS)))
    found = asyncio.run(UsageReader(objects=bucket, clock=Stopped(at("00:00", 18))).usage(REGION, window))
    told = {one.uid: one for one in found.pods}
    true = {one.uid: one for one in pods}
    for uid, one in told.items():
        assert one.start == time(true[uid].start)
        assert one.end is None or one.end <= time(true[uid].end)
        assert one.end is not None or time(true[uid].end) >= window.end or not found.final
    if found.gaps or not found.final:
        return
    there = {
        one.uid
        for one in pods
        if window.overlap(time(one.start), time(one.end)) or (one.start == one.end and window.holds(time(one.start)))
    }
    assert {uid for uid, one in told.items() if window.overlap(*one.span) or one.start == one.end} == there
    for uid in there:
        end = told[uid].end
        assert end == time(true[uid].end) or (time(true[uid].end) >= window.end and (end is None or end >= window.end))
    assert found.nodes == [node()]
