"""Where a follower of a job stands: in which execution, and where in its logs."""

from __future__ import annotations

from dataclasses import dataclass

from shared.clusters import log_positions
from shared.clusters.log_positions import Position


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPosition:
    """An execution, and the position in its logs."""

    execution: int
    logs: Position


def encode(execution: int, logs: str) -> str:
    """The position as text, over that of the logs."""
    return f"{execution}.{logs}"


def decode(text: str) -> JobPosition:
    """The position that `encode` wrote. Raises InvalidError at `/last_event_id`."""
    number, _, logs = text.partition(".")
    if not (number.isascii() and number.isdigit()) or not 0 < len(number) <= 9 or int(number) < 1:
        raise log_positions.refused(text)
    return JobPosition(execution=int(number), logs=log_positions.decode(logs))
