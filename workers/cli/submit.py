"""`gpufleet submit FILE…`: manifests from files or standard input, one submission for each Job in them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode, Fault
from workers.cli.options import API, Api, AsJson

if TYPE_CHECKING:
    from workers.cli.bundles import Bundle

STDIN = "-"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("submit")(submit)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outcome:
    bundle: Bundle
    record: Mapping[str, Any] | None = None
    created: bool = False
    error: CommandError | None = None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"source": self.bundle.source, "name": self.bundle.name}
        if self.error is not None:
            faults = [{"field": fault.field, "value": fault.value, "rule": fault.rule} for fault in self.error.faults]
            return found | {"error": self.error.message, "faults": faults}
        return found | {"created": self.created, "job": self.record}


def submit(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="JSON or YAML; several documents are fine. - is standard input.")],
    api: Api = API,
    region: Annotated[str, typer.Option(help="Where to run it; 'any' lets the fleet choose.")] = "any",
    namespace: Annotated[str, typer.Option(help="Namespace on the cluster.")] = "gco-jobs",
    priority: Annotated[int, typer.Option(min=0, max=100, help="From 0 to 100; the highest goes first.")] = 0,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label of the job; may be given again.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="Submit at most once under this key, however often it is sent.")] = None,
    max_attempts: Annotated[int, typer.Option(min=1, max=100, help="How often the job may be tried.")] = 1,
    queue_timeout: Annotated[int | None, typer.Option(min=1, metavar="SECONDS", help="Fail if it waits longer to be claimed.")] = None,
    execution_timeout: Annotated[int | None, typer.Option(min=1, metavar="SECONDS", help="Stop an attempt that runs longer.")] = None,
    total_timeout: Annotated[int | None, typer.Option(min=1, metavar="SECONDS", help="End it after this long, whatever happens.")] = None,
    spot_instance_type: Annotated[str | None, typer.Option(metavar="TYPE", help="Run on spot machines of this type only.")] = None,
    max_spot_price: Annotated[float | None, typer.Option(metavar="USD", help="And only while an hour of it costs no more.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Wait for the end; exit code 1 unless every job succeeds.")] = False,
    as_json: AsJson = False,
) -> int:
    """Submit every Job in the files, with the objects (Services, ConfigMaps) that stand beside it in the same file."""
    from workers.cli.bundles import load_bundles
    from workers.cli.client import FleetClient

    labels = _labels(label or [])
    bundles = [bundle for file in files for bundle in load_bundles(_read(file), source=file)]
    if idempotency_key is not None and len(bundles) > 1:
        raise CommandError(f"--idempotency-key stands for one job, and these files hold {len(bundles)}", code=ExitCode.USAGE)
    envelope: dict[str, Any] = {"target_region": region, "namespace": namespace, "priority": priority}
    if labels:
        envelope["labels"] = labels
    if max_attempts > 1:
        envelope["retry"] = {"max_attempts": max_attempts}
    limits = {"queue_seconds": queue_timeout, "execution_seconds": execution_timeout, "total_seconds": total_timeout}
    if any(limits.values()):
        envelope["timeouts"] = {name: seconds for name, seconds in limits.items() if seconds is not None}
    spot = {"spot_instance_type": spot_instance_type, "max_spot_price": max_spot_price}
    envelope |= {name: value for name, value in spot.items() if value is not None}
    with FleetClient(api) as client:
        outcomes = _send(client, bundles, envelope, idempotency_key)
        if as_json and not watch:
            output.write_json({"submissions": [one.as_json() for one in outcomes]})
        _report(outcomes, accepted=not as_json)
        code = max((_code(one) for one in outcomes), default=ExitCode.OK)
        if watch:
            code = max(code, _watch(client, outcomes, as_json=as_json))
    return code


def _labels(texts: list[str]) -> dict[str, str]:
    labels = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise CommandError(f"--label: {text!r}: must be KEY=VALUE", code=ExitCode.USAGE)
        labels[key] = value
    return labels


def _read(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}", code=ExitCode.USAGE) from error


def _send(client: Any, bundles: list[Bundle], envelope: Mapping[str, Any], key: str | None) -> list[_Outcome]:
    from rich.progress import Progress

    outcomes = []
    with Progress(console=output.err(), transient=True, disable=len(bundles) < 3 or not sys.stderr.isatty()) as progress:
        for bundle in progress.track(bundles, description="submitting"):
            request = {**envelope, "manifest": bundle.manifest}
            if bundle.supporting:
                request["supporting"] = bundle.supporting
            try:
                record, created = client.submit(request, idempotency_key=key)
                outcomes.append(_Outcome(bundle=bundle, record=record, created=created))
            except CommandError as error:
                if error.code is ExitCode.UNREACHABLE:
                    raise  # the rest would fare no better
                outcomes.append(_Outcome(bundle=bundle, error=error))
    return outcomes


def _code(outcome: _Outcome) -> ExitCode:
    return outcome.error.code if outcome.error is not None else ExitCode.OK


def _report(outcomes: list[_Outcome], *, accepted: bool) -> None:
    """Tell of what was refused, on standard error, and, if asked to, of what was accepted."""
    from workers.cli.records import id_of, region_of, state_of

    for one in outcomes:
        if one.error is not None:
            faults = one.error.faults or (Fault("", "", one.error.message),)
            head = f"{one.bundle.source}: {one.bundle.name}: {one.error.message if one.error.faults else 'refused'}"
            output.tell(CommandError(head, faults=faults))
        elif one.record is not None and accepted:
            note = "" if one.created else "  (an earlier submission under this idempotency key)"
            output.write(f"{id_of(one.record)}  {one.bundle.name}  {region_of(one.record)}  {state_of(one.record)}{note}")


def _watch(client: Any, outcomes: list[_Outcome], *, as_json: bool) -> ExitCode:
    from workers.cli.records import id_of, name_of, state_of
    from workers.cli.watching import watch

    sent = [id_of(one.record) for one in outcomes if one.record is not None]
    records = watch(client, sent, quiet=as_json)
    if as_json:
        refused = [one.as_json() for one in outcomes if one.error is not None]
        output.write_json({"jobs": list(records.values()), "refused": refused})
    else:
        for job_id, record in records.items():
            output.write(f"{job_id}  {name_of(record)}  {state_of(record)}")
    return ExitCode.OK if all(state_of(record) == "succeeded" for record in records.values()) else ExitCode.FAILED
