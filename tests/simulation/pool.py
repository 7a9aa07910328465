"""Many seeds on all processors."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterable, Iterator

from tests.simulation import sabotage
from tests.simulation.world import Result, run


def results(seeds: Iterable[int], *, sabotaged: str | None, processes: int) -> Iterator[Result]:
    """The result of each seed, as they come."""
    if processes <= 1:
        with sabotage.applied(sabotaged):
            yield from map(run, seeds)
        return
    # Spawned, since the emulator has a thread, and a forked child would have only half of it.
    with multiprocessing.get_context("spawn").Pool(processes, initializer=_prepare, initargs=(sabotaged,)) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=4)


def _prepare(sabotaged: str | None) -> None:
    """Make a process ready: what has been imported by now never needs to be looked at again by the collection after each run."""
    sabotage.apply(sabotaged)
    gc.freeze()
