"""What the containers of a pod have written by a given moment, and the log endpoint over it.

Nothing is stored line by line: a run knows its lines and over what time they spread, so that a pod nobody asks about costs nothing.
All main containers write the lines of their pod unless they have their own; init containers write nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf

from workers.local.cluster.agenda import Agenda, Timer
from workers.local.cluster.answers import TEXT, Cause, RefusedError, Response, Stream, bad_request
from workers.local.cluster.objects import Object, rfc3339_nanoseconds
from workers.local.cluster.parameters import is_true, moment_in, number_in
from workers.local.cluster.store import Entry


@dataclass(kw_only=True, slots=True)
class Run:
    """One run of the containers of a pod. Times are unix seconds; `duration` may be infinite.

    `own` are the lines of containers that write others than `lines`. After every `rotate` lines the kubelet rotates a log: it is begun
    anew, what stood in it can't be read any more, and streams that follow it end.
    """

    started: float
    duration: float
    lines: Sequence[str]
    own: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rotate: int | None = None
    ended: float | None = None

    def log_of(self, container: str, *, init: bool = False) -> ContainerLog:
        """The log of one container."""
        return ContainerLog(run=self, lines=() if init else self.own.get(container, self.lines))


@dataclass(kw_only=True, slots=True)
class ContainerLog:
    """The log of one container in one run."""

    run: Run
    lines: Sequence[str]

    def moment(self, number: int) -> float:
        """When the line of that number is written; the first one comes with the start."""
        run = self.run
        length = run.duration if run.duration != inf else float(len(self.lines))
        return run.started + length * number / max(1, len(self.lines))

    def written(self, now: float) -> list[tuple[float, str]]:
        """The lines that are there, each with its time."""
        end = now if self.run.ended is None else min(now, self.run.ended)
        timed = ((self.moment(number), line) for number, line in enumerate(self.lines))
        lines = [(moment, line) for moment, line in timed if moment <= end]
        return lines[self.file_of(len(lines) - 1) :] if lines else []

    def file_of(self, number: int) -> int:
        """The number of the first line of the file in which a line stands."""
        return number - number % self.run.rotate if self.run.rotate else 0


@dataclass(kw_only=True, slots=True)
class PodLog:
    """The runs of one pod, the present one last, and the log streams that follow it."""

    runs: list[Run] = field(default_factory=list)
    followers: list[LogStream] = field(default_factory=list)


class LogStream(Stream):
    """A followed log: gives the lines as their time comes, and ends with the run, with the rotation of its file, or at `limit` bytes."""

    def __init__(self, *, log: ContainerLog, agenda: Agenda, timestamps: bool, given: int, limit: int | None) -> None:
        super().__init__(TEXT)
        self._log = log
        self._agenda = agenda
        self._timestamps = timestamps
        self._file = log.file_of(given - 1) if given else 0
        self._next = given
        self._room = limit
        self._timer: Timer | None = None
        self._plan()

    def push(self, line: bytes) -> None:
        """Add a line, as far as the limit lets it."""
        if self._room is not None:
            line = line[: self._room]
            self._room -= len(line)
        super().push(line)
        if self._room == 0:
            self.close()

    def _plan(self) -> None:
        if self._next < len(self._log.lines):
            self._timer = self._agenda.at(self._log.moment(self._next), self._give)

    def _give(self) -> None:
        number = self._next
        if self._log.file_of(number) != self._file:
            self.close()
            return
        self._next += 1
        self.push(_format(self._log.moment(number), self._log.lines[number], timestamps=self._timestamps))
        self._plan()

    def close(self) -> None:
        """End the stream."""
        if self._timer is not None:
            self._timer.cancel()
        super().close()


def _format(moment: float, line: str, *, timestamps: bool) -> bytes:
    return (f"{rfc3339_nanoseconds(moment)} {line}\n" if timestamps else f"{line}\n").encode()


def _container(pod: Object, query: Mapping[str, str]) -> tuple[str, bool]:
    """The container that is asked for, and whether it is an init container."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    init = [container["name"] for container in pod["spec"].get("initContainers") or ()]
    asked = query.get("container", "")
    name = pod["metadata"]["name"]
    if not asked and len(names) > 1:
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join([*names, *init])}]")
    if asked and asked not in (*names, *init):
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked or names[0], asked in init


def read_log(entry: Entry, log: PodLog | None, query: Mapping[str, str], agenda: Agenda) -> Response | Stream:
    """Answer a request for the log of a pod. Raises a 400 where its container hasn't started, a 422 for options that can't be."""
    _check_options(entry, query)
    container, init = _container(entry.obj, query)
    run = _run(entry, log.runs if log is not None else [], container, previous=is_true(query, "previous"))
    found = run.log_of(container, init=init)
    timestamps = is_true(query, "timestamps")
    written = found.written(agenda.now)
    lines = [_format(moment, line, timestamps=timestamps) for moment, line in _cut(written, query, agenda.now)]
    limit = number_in(query, "limitBytes")
    if is_true(query, "follow") and run.ended is None and log is not None and not init:
        given = sum(found.moment(number) <= agenda.now for number in range(len(found.lines)))
        stream = LogStream(log=found, agenda=agenda, timestamps=timestamps, given=given, limit=limit)
        for line in lines:
            stream.push(line)
        log.followers.append(stream)
        return stream
    return Response(status=200, headers=TEXT, body=b"".join(lines)[:limit])


def _run(entry: Entry, runs: Sequence[Run], container: str, *, previous: bool) -> Run:
    """The run that is meant: the present one, or the one that ended last; the latter while the next one is waited for, too."""
    pod = entry.obj
    if previous:
        waits = runs and runs[-1].ended is not None and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ended = runs if waits else runs[:-1]
        if not ended:
            raise bad_request(f'previous terminated container "{container}" in pod "{entry.name}" not found')
        return ended[-1]
    if not runs:
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {entry.name} does not have a host assigned")
        raise bad_request(f'container "{container}" in pod "{entry.name}" is waiting to start: ContainerCreating')
    return runs[-1]


def _check_options(entry: Entry, query: Mapping[str, str]) -> None:
    """As `ValidatePodLogOptions` of the API server does."""
    causes = [
        Cause(field=name, message=f'Invalid value: "{query[name]}": must be greater than 0')
        for name in ("sinceSeconds", "limitBytes")
        if query.get(name) and number_in(query, name) == 0
    ]
    if query.get("sinceSeconds") and query.get("sinceTime"):
        message = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append(Cause(field="sinceSeconds", message=message))
    if causes:
        told = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
        raise RefusedError(422, "Invalid", f'PodLogOptions "{entry.name}" is invalid: {told}')


def _cut(written: list[tuple[float, str]], query: Mapping[str, str], now: float) -> list[tuple[float, str]]:
    seconds, count = number_in(query, "sinceSeconds"), number_in(query, "tailLines")
    # The API server hands a time on to the kubelet in whole seconds.
    since = moment_in(query, "sinceTime") if seconds is None else now - seconds
    if since is not None:
        since = floor(since) if seconds is None else since
        written = [(moment, line) for moment, line in written if moment >= since]
    if count is not None:
        written = written[-count:] if count else []
    return written
