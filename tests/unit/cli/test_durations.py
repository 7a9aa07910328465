"""Lengths of time as commands take them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from workers.cli.durations import seconds_of
from workers.cli.failures import CommandError


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1), ("60s", 60), ("30m", 1800), ("12h", 43_200), ("90d", 7_776_000)])
def test_a_number_and_a_unit_are_a_length(text, seconds):
    assert seconds_of(text, field="--expires") == seconds


@pytest.mark.parametrize("text", ["", "60", "s", "0s", "-1s", "1.5h", "60S", "60 s", "1w", "1h30m", "9999999s", "999999d", "00s"])
def test_anything_else_is_refused_with_the_units_and_the_most(text):
    with pytest.raises(CommandError, match=r"--expires.*must be a number above 0 and one of s, m, h, d, such as 90d, and at most 36500d"):
        seconds_of(text, field="--expires")


def test_the_most_is_a_choice():
    assert seconds_of("8d", field="--last", most=timedelta(days=8)) == 8 * 86_400
    with pytest.raises(CommandError, match=r"--last: 193h: must be .* at most 8d"):
        seconds_of("193h", field="--last", most=timedelta(days=8))
