"""`gpufleet logs ID`: what a job's containers wrote, also after their pods are gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli import output
from workers.cli.options import API, Api, AsJson, JobId, Key

if TYPE_CHECKING:
    from workers.cli.client import FleetClient


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("logs")(logs)


def logs(
    job_id: JobId,
    api: Api = API,
    key: Key = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    execution: Annotated[int | None, typer.Option(min=1, help="Of this execution; the newest, unless said.")] = None,
    pod: Annotated[str | None, typer.Option(help="Of this pod alone.")] = None,
    container: Annotated[str | None, typer.Option(help="Of this container alone.")] = None,
    tail: Annotated[int | None, typer.Option(min=1, max=10_000, help="The last lines of each container.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the log of a job.

    Followed, it goes on over new executions and restarts of the API, each line once. Where one execution has several containers, each line
    stands behind its pod and container from the second one on, to the end; that this begins within the output, and a new execution, is told
    on standard error. With --json it is one document; followed, each line and last of all the end is a document of its own.
    """
    from workers.cli.client import FleetClient

    choice = {"execution": execution, "pod": pod, "container": container, "tail": tail}
    with FleetClient(api, key) as client:
        if follow:
            _follow(client, job_id, choice, as_json=as_json)
            return
        if as_json and execution is None:
            choice["execution"] = newest_with_logs(client.job(job_id))
        lines = client.logs(job_id, **choice)
        if as_json:
            output.write_json({"job_id": job_id, "execution": choice["execution"], "lines": list(lines)})
            return
        for line in lines:
            output.write_log(line)


def _follow(client: FleetClient, job_id: str, choice: Mapping[str, Any], *, as_json: bool) -> None:
    from workers.cli.log_following import follow

    text = _Text()
    for kind, data, _ in follow(client, job_id, **choice):
        if not as_json:
            text.tell(kind, data)
        elif kind != "container":
            output.write_json_line(data if kind == "message" else {"event": kind, **data})


class _Text:
    """A followed log for people: the lines on standard output, all else on standard error.

    A retry of a job with one container looks like its first execution. Once lines are named they stay so: nobody could tell otherwise.
    """

    def __init__(self) -> None:
        self._execution: Any = None
        self._sources: set[tuple[Any, Any]] = set()
        """The containers of this execution."""
        self._written = self._named = False

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "end":
            if data.get("outcome") != "succeeded":
                output.say(": ".join(str(data[part]) for part in ("outcome", "reason", "message") if data.get(part)))
            return
        self._be_in(data.get("execution"))
        source = data.get("pod"), data.get("container")
        if kind == "container":
            self._sources.add(source)
        elif kind == "message":
            self._name_lines()
            output.write_log(f"{_name(source)}: {data.get('line')}" if self._named else str(data.get("line")))
            self._written = True
        elif kind == "notice":
            output.say(f"{_name(source)}: {data.get('message')}" if all(source) else str(data.get("message")))

    def _be_in(self, execution: Any) -> None:
        if self._execution not in (None, execution):
            output.say(f"execution {execution}:")
            self._sources.clear()
        self._execution = execution

    def _name_lines(self) -> None:
        if len(self._sources) > 1 and not self._named:
            self._named = True
            if self._written:
                output.say("from here on each line stands behind its pod and container")


def _name(source: tuple[Any, Any]) -> str:
    return "/".join(map(str, source))


def newest_with_logs(record: Mapping[str, Any]) -> int:
    """Which execution the API shows the log of where none is named: the current one, or the one before while that waits for a cluster."""
    number = int(record.get("execution") or 1)
    current: Mapping[str, Any] = next((one for one in record.get("executions") or [] if one.get("number") == number), {})
    waits = current.get("object") is None and record.get("state") not in {"pending", "running"}
    return number - 1 if number > 1 and waits else number
