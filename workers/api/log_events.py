"""What a follower of logs tells, as events: the same for every door."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.clusters.log_items import Item, Lines, Notice, Opened, Source
from workers.api.following import event

PositionAfter = Callable[[Source, int], str]
"""Moves a position over a line of a source and of a time, and gives it as text."""


def log_event(item: Item, position_after: PositionAfter, more: Mapping[str, Any] | None = None) -> bytes:
    """The events of one item; `more` is added to the data of each."""
    extra = more or {}
    match item:
        case Lines():
            about = {**extra, "pod": item.source.pod, "container": item.source.container}
            return b"".join(
                event(
                    {**about, "line": line.text, "timestamp": line.stamp or None},
                    id=position_after(item.source, line.at) if item.dated else None,
                )
                for line in item.lines
            )
        case Opened():
            return event({**extra, "pod": item.source.pod, "container": item.source.container}, kind="container")
        case Notice():
            pod, container = (item.source.pod, item.source.container) if item.source is not None else (None, None)
            told = {"pod": pod, "container": container, "message": item.message, "loss": item.loss}
            return event({**extra, **told}, kind="notice")
        case _:
            end = {"outcome": item.outcome, "reason": item.reason, "message": item.message, "whole": item.whole}
            return event({**extra, **end}, kind="end")
