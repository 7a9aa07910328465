"""The first thing that is wrong in a run, wherever it shows: it ends the run."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

from tests.simulation.invariants import Violation
from tests.simulation.processes import KilledError
from tests.simulation.trace import Trace


class Verdict:
    """`over` is done when the run is: by a violation, or because all has come to rest."""

    def __init__(self, loop: asyncio.AbstractEventLoop, trace: Trace) -> None:
        self.violation: Violation | None = None
        self.over: asyncio.Future[None] = loop.create_future()
        self._trace = trace

    def end(self) -> None:
        """The run is over."""
        if not self.over.done():
            self.over.set_result(None)

    def report(self, violation: Violation) -> None:
        """Something is wrong."""
        if self.violation is None:
            self.violation = violation
            self._trace.step("  VIOLATION", f"{violation.invariant}: {violation.details}")
            self.end()

    def failed(self, who: str, error: BaseException) -> None:
        """A worker, or something of the world, ended by an error."""
        self.report(Violation("no worker ends by an error", f"{who}: {_told(error)}"))

    def unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop's exception handler."""
        error = context.get("exception")
        if error is not None and not isinstance(error, (KilledError, asyncio.CancelledError)):
            self.report(Violation("no task fails unseen", f"{context.get('message')}: {_told(error)}"))

    def log(self, logger: Any, level: str, event: Any) -> Any:
        """A processor of structlog: into the trace, and an error is a finding."""
        error = event.pop("exc_info", None)
        if level in {"error", "critical"} and not isinstance(error, KilledError):
            told = _told(error) if isinstance(error, BaseException) else str(error)
            self.report(Violation("no worker logs an error", f"{event}: {told}"))
        return self._trace.log_processor(logger, level, event)


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
