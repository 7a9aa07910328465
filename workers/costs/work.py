"""What the cost worker does: the reports that are due in a region, or one that a message asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

import structlog

from shared.clock import Clock
from shared.costs.model import Window
from shared.costs.report_store import Written
from shared.costs.windows import completed
from shared.errors import FleetError, InvalidError, Problem
from shared.queues.dead_letters import bury
from shared.queues.queue import Message, Queue
from shared.queues.tasks import CostTask, parse

log = structlog.get_logger()


class Reports(Protocol):
    """Makes a region's reports."""

    async def report(self, window: Window) -> Written:
        """The report of a window of the schedule."""
        ...


class Due(Protocol):
    """Knows which are wanted."""

    async def due(self) -> Sequence[Window]:
        """The windows that want a report, a bounded number of them."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionWork:
    """Who makes the reports of a region, and who knows which."""

    reports: Reports
    backlog: Due


class Outcome(StrEnum):
    """What became of a message."""

    DONE = "done"  # what it asked for stands
    DEAD = "dead"  # it means nothing; among the dead letters
    LEFT = "left"  # to be tried again


class CostWork:
    """Makes reports. Any number may work side by side: what is written depends on nobody's being alone."""

    def __init__(self, *, regions: Mapping[str, RegionWork], dead_letters: Queue, clock: Clock, length: timedelta) -> None:
        self._regions = regions
        self._dead_letters = dead_letters
        self._clock = clock
        self._length = length
        self.enough: Callable[[], bool] = lambda: False
        """Whether no further report should be begun: a worker that is to end, an invocation whose time is nearly over."""

    async def due(self, region: str) -> int:
        """Make the reports that are due in a region; how many were written. One that fails doesn't keep others from being made.

        Raises the first failure after all the others have had their turn.
        """
        work = self._regions[region]
        written = 0
        failure: FleetError | None = None
        for window in await work.backlog.due():
            if self.enough():
                break
            try:
                written += (await self._report(region, window)).changed
            except FleetError as error:
                log.warning("report not made yet", region=region, start=window.start.isoformat(), error=str(error))
                failure = failure or error
        if failure is not None:
            raise failure
        return written

    async def handle_all(self, messages: Sequence[Message]) -> list[Outcome]:
        """Handle messages one after the other, those that ask for the same once. Never raises."""
        done: dict[CostTask, Outcome] = {}
        outcomes = []
        for message in messages:
            try:
                task = self._checked(parse(message.body))
            except InvalidError as invalid:
                outcomes.append(Outcome.DEAD if await bury(self._dead_letters, message, str(invalid)) else Outcome.LEFT)
                continue
            if task not in done:
                done[task] = await self._do(task)
            outcomes.append(done[task])
        return outcomes

    def _checked(self, task: CostTask) -> CostTask:
        """Raises InvalidError for a region that isn't the fleet's, and for a window that isn't of the schedule or isn't over."""
        problems = []
        if task.region is not None and task.region not in self._regions:
            rule = f"must be a region of the fleet: {', '.join(self._regions)}"
            problems.append(Problem(pointer="/region", value=task.region, rule=rule))
        if task.window is not None:
            rule = f"must be a window of {self._length} that is over, and begin at a multiple of that since 1970, UTC"
            if task.window not in completed(task.window.start, min(task.window.end, self._clock.now()), self._length):
                problems.append(Problem(pointer="/window", value=f"{task.window.start} to {task.window.end}", rule=rule))
        if problems:
            raise InvalidError(problems)
        return task

    async def _do(self, task: CostTask) -> Outcome:
        outcome = Outcome.DONE
        for region in [task.region] if task.region is not None else self._regions:
            if self.enough():
                return Outcome.LEFT
            try:
                if task.window is not None:
                    await self._report(region, task.window)
                else:
                    await self.due(region)
            except FleetError as error:
                log.warning("task left for another try", region=region, error=str(error))
                outcome = Outcome.LEFT
            except Exception:
                log.exception("task not done", region=region)
                outcome = Outcome.LEFT
        return outcome

    async def _report(self, region: str, window: Window) -> Written:
        written = await self._regions[region].reports.report(window)
        if written.changed:
            told = written.summary
            log.info("report written", region=region, key=told.allocation_key, usd=str(told.total_cost), final=told.final)
        return written
