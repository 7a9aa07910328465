"""In which order a worker tries to claim what is ready, so that many workers seldom meet. A meeting is a refused write, which costs as much
as one that succeeds.

Workers don't know of each other. Alone, a worker takes the list as it stands. Once it has met another one it deals the entries into lanes,
by the random part of the job's id, as the other one does. A lane in which it is met it leaves to the other from then on; the one that was
faster keeps it. So after a few meetings every lane has one worker, and nobody had to say so. Lanes are dealt anew for each priority, so
that a higher one always goes first; among equals the order of the list holds but for what the workers claim at the same time anyway.

A lane is claimed in growing steps: who loses its first entry lets the rest be, and has lost one claim instead of a whole window of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from shared.jobs.model import ReadyEntry

LANES = 16
"""Enough for eight workers to have two each, and few enough that a lane of a window holds what one of them can take."""
STEP = 4
"""How much larger each step into a lane is than the one before: 1, 4, 16, 64. Sixty-four jobs take four round trips instead of one."""
LONGEST_STEP = 64
"""More claims at the same time than there are connections would only wait for one, and hold memory meanwhile."""
FORGET = 0.1
"""How likely a look without any meeting is to try a lane again that was left to another worker: it may have gone."""
_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    """Entries in the order of the list, tried one after the other."""

    number: int
    entries: list[ReadyEntry]


class Rivals:
    """What one worker has learnt of the others from its own claims."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._alone = True
        self._theirs: dict[int, None] = {}
        self._won: dict[str, int] = {}
        self._passed: set[str] = set()

    def window(self, limit: int) -> int:
        """How many entries to look at in order to claim `limit` of them. Alone, a worker looks at no more than it takes."""
        return limit if self._alone else limit * LANES

    def fresh(self, entries: Sequence[ReadyEntry]) -> list[ReadyEntry]:
        """The entries without those that we have claimed ourselves: the index lags behind the table by some milliseconds."""
        return [entry for entry in entries if self._won.get(entry.job_id) != entry.fence]

    def lanes(self, entries: Sequence[ReadyEntry]) -> list[Lane]:
        """What is to be tried, in order: the highest priority first, and of each priority our lanes, the one with the best entry first.

        An entry in another's lane is passed over once. Where it is still there at the next look, and what we would take instead has a
        lower priority, it is ours to try. Where nothing is in our lanes, the others' are tried, the one first that was left to them
        the longest time ago.
        """
        if self._alone:
            return [Lane(number=0, entries=list(entries))]
        passed, self._passed = self._passed, set()
        ours: list[Lane] = []
        theirs: list[Lane] = []
        for priority, band in groupby(entries, key=lambda entry: entry.priority):
            for lane in _deal(band):
                if lane.number not in self._theirs:
                    ours.append(lane)
                    continue
                theirs.append(lane)
                if priority > entries[-1].priority:
                    left = [entry for entry in lane.entries if entry.job_id in passed]
                    ours += [Lane(number=lane.number, entries=left)] if left else []
                    self._passed.update(entry.job_id for entry in lane.entries)
        longest_ago = list(self._theirs)
        return ours or sorted(theirs, key=lambda lane: (-lane.entries[0].priority, longest_ago.index(lane.number)))

    def won(self, entry: ReadyEntry) -> None:
        """A claim was won: with that fence the job will never be there to be claimed again."""
        self._won[entry.job_id] = entry.fence
        if len(self._won) > _REMEMBERED:
            del self._won[next(iter(self._won))]

    def has_won(self, job_id: str) -> bool:
        """Whether a job was claimed here, as far as is remembered."""
        return job_id in self._won

    def met(self, lane: Lane) -> None:
        """Another worker was met in a lane: there are several of us, and that lane is its."""
        if self._alone:
            self._alone = False
            return
        self._theirs.pop(lane.number, None)
        self._theirs[lane.number] = None

    def quiet(self) -> None:
        """A look met nobody. Now and then that is a reason to think that there are fewer of us than there were."""
        if self._alone or self._chance.random() >= FORGET:
            return
        if self._theirs:
            del self._theirs[next(iter(self._theirs))]
        else:
            self._alone = True


def steps(entries: Sequence[ReadyEntry], limit: int) -> Iterator[Sequence[ReadyEntry]]:
    """Entries in steps of 1, 4, 16, 64, 64 and so on, `limit` in all."""
    start, size = 0, 1
    end = min(len(entries), limit)
    while start < end:
        yield entries[start : min(start + size, end)]
        start += size
        size = min(size * STEP, LONGEST_STEP)


def _deal(band: Iterable[ReadyEntry]) -> list[Lane]:
    """Entries of one priority in their lanes, the lane with the best entry first."""
    dealt: dict[int, list[ReadyEntry]] = {}
    for entry in band:
        dealt.setdefault(_lot(entry.job_id) % LANES, []).append(entry)
    return [Lane(number=number, entries=entries) for number, entries in dealt.items()]


def _lot(job_id: str) -> int:
    """A number from the random part of a job's id, other digits of it than those that choose its shard."""
    return int(job_id[-8:-4], 16)
