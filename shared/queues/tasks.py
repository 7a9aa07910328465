"""Messages of the queue `tasks`: reports of costs that are to be made. EventBridge sends them on a schedule, with a fixed text.

`{"task": "cost_window"}` asks for whatever is due in all regions, `"region"` for what is in one, and `"window": {"start": …, "end": …}` for
one window of the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from shared.costs.model import Window
from shared.errors import InvalidError
from shared.jobs.fields import Strict
from shared.rules import problems_of
from shared.times import Moment


class _Window(Strict):
    start: Moment
    end: Moment


class _Body(Strict):
    task: Literal["cost_window"]
    region: str | None = None
    window: _Window | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CostTask:
    """What is asked for; None for all regions, and for every window that is due."""

    region: str | None = None
    window: Window | None = None


def parse(body: str | bytes) -> CostTask:
    """The task in a message's body. Raises InvalidError with every wrong field."""
    try:
        found = _Body.model_validate_json(body)
    except ValidationError as error:
        raise InvalidError(problems_of(error)) from None
    window = Window(found.window.start, found.window.end) if found.window else None
    return CostTask(region=found.region, window=window)
