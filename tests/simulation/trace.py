"""What happened in a run, step by step: the last steps for people, and a digest of all of them for comparing two runs."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import MutableMapping
from typing import Any

import structlog

KEPT = 200


class Trace:
    """The steps of one run."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, kept: int | None = KEPT) -> None:
        self._loop = loop
        self._digest = hashlib.blake2b(digest_size=16)
        self._last: deque[str] = deque(maxlen=kept)
        self.steps = 0
        self.counts: Counter[str] = Counter()

    def step(self, who: str, what: str) -> None:
        """Something happened."""
        line = f"{self._loop.time():11.4f}  {who:<22} {what}"
        self.steps += 1
        self._last.append(line)
        self._digest.update(line.encode())

    def count(self, what: str) -> None:
        """Count something for the summary."""
        self.counts[what] += 1

    @property
    def digest(self) -> str:
        """Equal for two runs only if every one of their steps was equal."""
        return self._digest.hexdigest()

    @property
    def last(self) -> list[str]:
        """The last steps."""
        return list(self._last)

    def log_processor(self, _: Any, level: str, event: MutableMapping[str, Any]) -> Any:
        """A processor of structlog that writes what the real code logs into the trace."""
        text = event.pop("event", "")
        details = " ".join(f"{key}={value}" for key, value in event.items())
        self.step("  log", f"{level}: {text} {details}")
        raise structlog.DropEvent
