"""Lengths of time as a command takes them: `90d`, `12h`, `30m`, `60s`."""

from __future__ import annotations

import re

from workers.cli.failures import CommandError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9][0-9]{0,5})([smhd])")


def seconds_of(text: str, *, field: str) -> int:
    """The seconds of a length of time. Raises CommandError that names the field."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise CommandError.at(field, text, "must be a number and one of s, m, h, d, such as 90d")
    return int(found[1]) * _UNITS[found[2]]
