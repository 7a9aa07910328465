"""One page of a list of an API server, read as it comes: no more of it is in memory than the piece at hand and one object.

A page of 5,000 Jobs is tens of megabytes, which would be hundreds as dictionaries, and read in one go it would hold the event loop for
a second. The standard library's decoder reads the objects, since it is seven times as fast as the parsers that are made for streams; all
that is done here is to find where the next one begins.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from shared.clusters.api import KubernetesApi
from shared.errors import UnavailableError

PIECE: Final = 64 * 1024
"""Bytes that are read before the event loop has its turn: about a millisecond."""
LONGEST_OBJECT: Final = 16 * 1024 * 1024
"""Characters. etcd holds objects of 1.5 MiB, of which JSON makes a few more."""
BEGIN_SECONDS: Final = 30.0
"""Until the answer begins; an API server reads the whole page from etcd before."""
SILENCE_SECONDS: Final = 15.0

_BLANKS: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


async def read_page(api: KubernetesApi, path: str, query: Mapping[str, str], take: Callable[[dict[str, Any]], None]) -> Mapping[str, Any]:
    """Give every object of a page to `take`, in their order, and return the page's metadata (`continue`, `remainingItemCount`).

    Raises UnavailableError, also for an answer that broke off after objects of it were taken, and ApiError, of these ExpiredError for a
    continue token that is too old.
    """
    page = ListReader(take)
    async with api.stream(path, query=query, timeout=BEGIN_SECONDS, silence=SILENCE_SECONDS) as chunks:
        try:
            async for chunk in chunks:
                for start in range(0, len(chunk), PIECE):
                    page.feed(chunk[start : start + PIECE])
                    await asyncio.sleep(0)
            page.end()
        except ValueError as error:
            raise UnavailableError(f"GET {path}: the answer is no list of objects: {error}") from error
    return page.metadata


class ListReader:
    """Takes the JSON of a list apart: its items go to `take`, its other fields are kept. Raises ValueError for what is no list."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take = take
        self._text = ""
        self._further: list[str] = []
        self._size = 0
        self._enough = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._fields: dict[str, Any] = {}
        self._state: Callable[[int], int] = self._begin

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The list's own metadata, once it has ended."""
        metadata: Mapping[str, Any] = self._fields["metadata"]
        return metadata

    def feed(self, piece: bytes) -> None:
        """Read on."""
        self._hold(self._decoder.decode(piece))
        # What was cut off is tried again when twice as much is there, so that a long object is not read over and over.
        if self._size >= self._enough:
            self._read()

    def end(self) -> None:
        """The answer has ended, and must be whole."""
        self._hold(self._decoder.decode(b"", final=True))
        self._read()
        if self._state != self._ended or not isinstance(self._fields.get("metadata"), dict):
            raise ValueError("it breaks off" if self._state != self._ended else "it has no metadata")

    def _hold(self, text: str) -> None:
        self._further.append(text)
        self._size += len(text)

    def _read(self) -> None:
        self._text += "".join(self._further)
        self._further.clear()
        place = 0
        try:
            while True:
                place = self._state(self._next(place))
        except _MoreError:
            self._text = self._text[place:]
        self._size = len(self._text)
        self._enough = 2 * self._size
        if self._size > LONGEST_OBJECT:
            raise ValueError(f"a part of it is longer than {LONGEST_OBJECT} characters, or no JSON")

    def _begin(self, place: int) -> int:
        self._state = self._field
        return self._symbol(place, "{")

    def _field(self, place: int) -> int:
        """A field of the list, or its end."""
        symbol = self._text[place]
        if symbol == "}":
            self._state = self._ended
            return place + 1
        if symbol == ",":
            return place + 1
        key, place = self._value(place)
        place = self._next(self._symbol(self._next(place), ":"))
        if key == "items" and self._text[place] == "[":
            self._state = self._item
            return place + 1
        self._fields[key], place = self._value(place)
        return place

    def _item(self, place: int) -> int:
        """An item, or the end of them."""
        symbol = self._text[place]
        if symbol == "]":
            self._state = self._field
            return place + 1
        if symbol == ",":
            return place + 1
        item, place = self._value(place)
        if not isinstance(item, dict):
            raise ValueError("an item is no object")
        self._take(item)
        return place

    def _ended(self, place: int) -> int:
        raise ValueError(f"something follows it: {self._text[place : place + 20]!r}")

    def _next(self, place: int) -> int:
        """The place of the next character that isn't blank."""
        while place < len(self._text):
            if self._text[place] not in _BLANKS:
                return place
            place += 1
        raise _MoreError

    def _symbol(self, place: int, symbol: str) -> int:
        if self._text[place] != symbol:
            raise ValueError(f"{self._text[place]!r} stands where {symbol!r} belongs")
        return place + 1

    def _value(self, place: int) -> tuple[Any, int]:
        """A value and the place after it. One at the very end of what there is may go on: a number has no end of its own."""
        try:
            value, place = _DECODER.raw_decode(self._text, place)
        except (ValueError, RecursionError):
            raise _MoreError from None
        if place == len(self._text):
            raise _MoreError
        return value, place


class _MoreError(Exception):
    """What was read so far ends within something."""
