"""What the containers of a pod have written by a given moment, and the log endpoint over it.

Nothing is stored line by line: a run knows its lines and over what time they spread, so that a pod nobody asks about costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workers.local.cluster.agenda import Agenda, Timer
from workers.local.cluster.answers import TEXT, Response, Stream, bad_request
from workers.local.cluster.objects import Object, rfc3339_nanoseconds
from workers.local.cluster.parameters import is_true, moment_in, number_in
from workers.local.cluster.store import Entry


@dataclass(kw_only=True, slots=True)
class Run:
    """One run of the containers of a pod. Times are unix seconds; `duration` may be infinite."""

    started: float
    duration: float
    lines: Sequence[str]
    ended: float | None = None

    def moment(self, number: int) -> float:
        """When the line of that number is written; the first one comes with the start."""
        length = self.duration if self.duration != float("inf") else float(len(self.lines))
        return self.started + length * number / max(1, len(self.lines))

    def written(self, now: float) -> list[tuple[float, str]]:
        """The lines that are there, each with its time."""
        end = now if self.ended is None else min(now, self.ended)
        timed = ((self.moment(number), line) for number, line in enumerate(self.lines))
        return [(moment, line) for moment, line in timed if moment <= end]


@dataclass(kw_only=True, slots=True)
class PodLog:
    """The runs of one pod, the present one last, and the log streams that follow it."""

    runs: list[Run] = field(default_factory=list)
    followers: list[LogStream] = field(default_factory=list)


class LogStream(Stream):
    """A followed log: gives the lines as their time comes, and ends with the run."""

    def __init__(self, *, run: Run, agenda: Agenda, timestamps: bool, given: int) -> None:
        super().__init__(TEXT)
        self._run = run
        self._agenda = agenda
        self._timestamps = timestamps
        self._next = given
        self._timer: Timer | None = None
        self._plan()

    def _plan(self) -> None:
        if self._next < len(self._run.lines):
            self._timer = self._agenda.at(self._run.moment(self._next), self._give)

    def _give(self) -> None:
        number = self._next
        self._next += 1
        self.push(_format(self._run.moment(number), self._run.lines[number], timestamps=self._timestamps))
        self._plan()

    def close(self) -> None:
        """End the stream."""
        if self._timer is not None:
            self._timer.cancel()
        super().close()


def _format(moment: float, line: str, *, timestamps: bool) -> bytes:
    return (f"{rfc3339_nanoseconds(moment)} {line}\n" if timestamps else f"{line}\n").encode()


def _container(pod: Object, query: Mapping[str, str]) -> str:
    names = [container["name"] for container in pod["spec"]["containers"]]
    every = [*names, *(container["name"] for container in pod["spec"].get("initContainers") or ())]
    asked = query.get("container", "")
    name = pod["metadata"]["name"]
    if not asked and len(names) > 1:
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(every)}]")
    if asked and asked not in every:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked or names[0]


def read_log(entry: Entry, log: PodLog | None, query: Mapping[str, str], agenda: Agenda) -> Response | Stream:
    """Answer a request for the log of a pod. Raises a 400 where its container hasn't started."""
    pod = entry.obj
    container = _container(pod, query)
    runs = log.runs if log is not None else []
    previous = is_true(query, "previous")
    if previous and len(runs) < 2:
        message = f'previous terminated container "{container}" in pod "{entry.name}" not found'
        raise bad_request(message)
    if not runs:
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {entry.name} does not have a host assigned")
        raise bad_request(f'container "{container}" in pod "{entry.name}" is waiting to start: ContainerCreating')
    run = runs[-2] if previous else runs[-1]
    timestamps = is_true(query, "timestamps")
    written = run.written(agenda.now)
    lines = [_format(moment, line, timestamps=timestamps) for moment, line in _cut(written, query, agenda.now)]
    if is_true(query, "follow") and run.ended is None and log is not None:
        stream = LogStream(run=run, agenda=agenda, timestamps=timestamps, given=len(written))
        for line in lines:
            stream.push(line)
        log.followers.append(stream)
        return stream
    body = b"".join(lines)[: number_in(query, "limitBytes")]
    return Response(status=200, headers=TEXT, body=body)


def _cut(written: list[tuple[float, str]], query: Mapping[str, str], now: float) -> list[tuple[float, str]]:
    seconds, count = number_in(query, "sinceSeconds"), number_in(query, "tailLines")
    since = moment_in(query, "sinceTime") if seconds is None else now - seconds
    if since is not None:
        written = [(moment, line) for moment, line in written if moment >= since]
    if count is not None:
        written = written[-count:] if count else []
    return written
