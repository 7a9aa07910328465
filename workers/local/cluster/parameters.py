"""Query parameters, read as the API server reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from workers.local.cluster.answers import bad_request


def is_true(query: Mapping[str, str], name: str) -> bool:
    """Whether a parameter says yes, in any way that Go's `strconv.ParseBool` and the clients write it."""
    return query.get(name, "").lower() in ("true", "1", "t")


def number_in(query: Mapping[str, str], name: str) -> int | None:
    """A whole number, not negative; None where there is none. Raises a 400 for anything else."""
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number, not negative')
    return int(text)


def moment_in(query: Mapping[str, str], name: str) -> float | None:
    """A time in RFC 3339 as unix seconds; None where there is none. Raises a 400 for anything else."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise bad_request(f'{name}: Invalid value: "{text}": must be a time in RFC 3339') from error
    if moment.tzinfo is None:
        raise bad_request(f'{name}: Invalid value: "{text}": must have a time zone')
    return moment.timestamp()
