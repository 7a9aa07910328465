"""Lengths of time as a command takes them: `90d`, `12h`, `30m`, `60s`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from workers.cli.failures import CommandError

MOST: Final = timedelta(days=36_500)
"""A hundred years: no calendar ends on the way there, and nobody waits for longer."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9][0-9]{0,5})([smhd])")


def seconds_of(text: str, *, field: str, most: timedelta = MOST) -> int:
    """The seconds of a length of time, `most` of whole days at most. Raises CommandError that names the field."""
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found is not None else 0
    if not 0 < seconds <= most.total_seconds():
        example = "90d" if most == MOST else "1h"
        raise CommandError.at(field, text, f"must be a number above 0 and one of s, m, h, d, such as {example}, and at most {most.days}d")
    return seconds
