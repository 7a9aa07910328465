"""Lines of a container's log as the kubelet gives them with `timestamps=true`: cut apart, dated, and told from those that were seen before.

A log is read again after a connection broke, after it was rotated, by another process. What a reader has seen is told by a `Mark`, which
holds a time and not a place, since a place means nothing in a file that has begun anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

LONGEST_LINE: Final = 256 * 1024
"""Bytes of a line that are kept. Runtimes cut lines at 16 KiB and the kubelet joins them again, however many there are."""
CUT: Final = "… (the line was cut)"
SECOND: Final = 1_000_000_000


class LogLine(NamedTuple):
    """One line: its time in nanoseconds since 1970, the same as the kubelet wrote it, and the text."""

    at: int
    stamp: str
    text: str


class Mark(NamedTuple):
    """How far a log was seen: `at` is the latest time of a line, `seen` how many lines were seen since the first line of that time.

    Lines of one time are told apart by their number. It counts late ones too: two streams of a container that share a log are dated before
    they are written, so that a line may stand behind another that is a little younger.
    """

    at: int
    seen: int

    @property
    def since(self) -> datetime:
        """From when a log must be read again to find the place: a second before, for the late ones, and whole, as the API takes it."""
        return datetime.fromtimestamp(max(self.at // SECOND - 1, 0), UTC)


def passed(mark: Mark | None, at: int) -> Mark:
    """The mark after one more line."""
    if mark is None or at > mark.at:
        return Mark(at, 1)
    return Mark(mark.at, mark.seen + 1)


class Unseen:
    """Tells, line by line, what is new in a log that is read from before a mark. One for each reading; `mark` moves on with it.

    Nothing is new before the line of the mark's time. Where that isn't there any more (the log was rotated), what is younger is new.
    """

    def __init__(self, mark: Mark | None) -> None:
        self.mark = mark
        self._seeking = mark is not None
        self._shown = 0

    def take(self, at: int) -> bool:
        """Whether the next line, which is of this time, is new."""
        if self.mark is not None:
            if self._seeking:
                if at < self.mark.at:
                    return False
                self._seeking = False
                self._shown = self.mark.seen if at == self.mark.at else 0
            if self._shown:
                if at <= self.mark.at:
                    self._shown -= 1
                    return False
                self._shown = 0  # a younger line was never counted, so the log has fewer lines now than it had
        self.mark = passed(self.mark, at)
        return True


class LineSplitter:
    """Cuts a log that comes in pieces into lines without their ends. Holds one line at the most, of which `longest` bytes."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that end in the next piece."""
        *ends, rest = piece.split(b"\n")
        lines = []
        for end in ends:
            self._hold(end)
            lines.append(self.rest())
        self._hold(rest)
        return lines

    def rest(self) -> bytes:
        """What has come of the line that has no end yet; it is forgotten here."""
        line = b"".join(self._held)
        if self._size > self._longest:
            line += CUT.encode()
        self._held, self._size = [], 0
        return line

    def _hold(self, part: bytes) -> None:
        room = self._longest - self._size
        if part and room > 0:
            self._held.append(part[:room])
        self._size += len(part)


def dated(lines: Iterable[bytes]) -> tuple[list[LogLine], list[str]]:
    """The lines that have a time, and what else came.

    The kubelet dates every line, so one without a time is its own word about the log ("unable to retrieve container logs for …").
    """
    found: list[LogLine] = []
    others: list[str] = []
    for line in lines:
        stamp, _, text = line.partition(b" ")
        told = stamp.decode("ascii", "replace")
        at = nanoseconds(told)
        if at is not None:
            found.append(LogLine(at, told, text.decode(errors="replace")))
        elif line:
            others.append(line.decode(errors="replace"))
    return found, others


def nanoseconds(stamp: str) -> int | None:
    """An RFC 3339 time with up to nine digits of a second, in nanoseconds since 1970; None for anything else."""
    seconds, point, rest = stamp[:19], stamp[19:20], stamp[20:]
    if point != ".":
        whole = _second(seconds, stamp[19:])
        return None if whole is None else whole * SECOND
    digits = rest.rstrip("Z") if rest.endswith("Z") else rest[: max(rest.find("+"), rest.find("-"))]
    whole = _second(seconds, rest[len(digits) :])
    if whole is None or not (0 < len(digits) <= 9 and digits.isascii() and digits.isdigit()):
        return None
    return whole * SECOND + int(digits.ljust(9, "0"))


@lru_cache(maxsize=256)
def _second(text: str, zone: str) -> int | None:
    if len(text) != 19 or text[10] != "T" or not zone:
        return None
    try:
        moment = datetime.fromisoformat(text + zone)
    except ValueError:
        return None
    return int(moment.timestamp()) if moment.tzinfo is not None else None


def undated(line: bytes) -> bytes:
    """A dated line without its time; one that has none as it is."""
    stamp, _, text = line.partition(b" ")
    return text if nanoseconds(stamp.decode("ascii", "replace")) is not None else line
