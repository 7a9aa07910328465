"""Times that somebody gives, in bodies, messages and queries: texts with a zone, and nothing that would have to be guessed at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator


def _moment(value: Any) -> Any:
    """The time in a text. Strict models take no texts for times; others take numbers too, for seconds since 1970."""
    if not isinstance(value, str):
        raise ValueError("must be a time as text, such as 2026-07-26T09:00:00Z")
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("must be a time such as 2026-07-26T09:00:00Z (ISO 8601)") from None
    if found.utcoffset() is None:  # told here, where the text is known that was sent
        raise ValueError("must be a time with a zone, such as 2026-07-26T09:00:00Z")
    return found


Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]
"""A time with a zone, as text."""
