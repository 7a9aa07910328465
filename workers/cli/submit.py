"""`gpufleet submit FILE…`: manifests from files or standard input, one submission for each Job in them."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode, Fault
from workers.cli.options import API, Api, AsJson, Key

if TYPE_CHECKING:
    from workers.cli.bundles import Bundle


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
        from workers.cli.records import summary

        found: dict[str, Any] = {"source": self.bundle.source, "name": self.bundle.name}
        return found | {
            "created": self.created,
            "job": None if self.record is None else summary(self.record),
            "error": None if self.error is None else self.error.as_json(),
        }


def submit(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="JSON or YAML; several documents are fine. - is standard input.")],
    api: Api = API,
    key: Key = None,
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
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With --watch: tell every event, also of many jobs to a file.")] = False,
    as_json: AsJson = False,
) -> int:
    """Submit every Job in the files, with the objects (Services, ConfigMaps) that stand with it in the same file.

    Where a file holds several Jobs, an object belongs to the one Job that it follows; one that stands before the first Job, to the first.
    A file has at most 4 MiB.
    """
    from workers.cli.bundles import load_bundles
    from workers.cli.client import FleetClient
    from workers.cli.files import read_file

    optional = {
        "labels": _labels(label or []),
        "retry": {"max_attempts": max_attempts} if max_attempts > 1 else None,
        "timeouts": _given(queue_seconds=queue_timeout, execution_seconds=execution_timeout, total_seconds=total_timeout),
        "spot_instance_type": spot_instance_type,
        "max_spot_price": _price(max_spot_price),
    }
    envelope = _given(target_region=region, namespace=namespace, priority=priority, **optional)
    bundles = [bundle for file in files for bundle in load_bundles(read_file(file), source=file)]
    if idempotency_key is not None and len(bundles) > 1:
        raise CommandError.at("--idempotency-key", idempotency_key, f"must stand for one job, and these files hold {len(bundles)}")
    with FleetClient(api, key) as client:
        outcomes = _send(client, bundles, envelope, idempotency_key)
        if not as_json:
            _report(outcomes)
            _warn(client, region, outcomes)
        code = max((_code(one) for one in outcomes), default=ExitCode.OK)
        if watch and any(one.record is not None for one in outcomes):
            try:
                outcomes, ended = _watch(client, outcomes, as_json=as_json, verbose=verbose)
            except (CommandError, KeyboardInterrupt) as caught:
                error = caught if isinstance(caught, CommandError) else CommandError("interrupted", code=ExitCode.INTERRUPTED)
                if as_json:  # what was accepted is told all the same
                    _write(outcomes, error)
                    return error.code
                raise
            code = max(code, ended)
    if as_json:
        _write(outcomes)
    return code


def _write(outcomes: list[_Outcome], error: CommandError | None = None) -> None:
    document: dict[str, Any] = {"submissions": [one.as_json() for one in outcomes]}
    output.write_json(document if error is None else document | {"error": error.as_json()})


def _given(**parts: Any) -> dict[str, Any]:
    """Those that have something in them; a number has, also 0."""
    return {name: value for name, value in parts.items() if value is not None and value != {}}


def _price(price: float | None) -> float | None:
    if price is not None and not (math.isfinite(price) and price > 0):
        raise CommandError.at("--max-spot-price", price, "must be a number of USD above 0")
    return price


def _labels(texts: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise CommandError.at("--label", text, "must be KEY=VALUE")
        if key in labels:
            raise CommandError.at("--label", text, f"must give each key once; {key} is {labels[key] or '(empty)'} already")
        labels[key] = value
    return labels


def _send(client: Any, bundles: list[Bundle], envelope: Mapping[str, Any], key: str | None) -> list[_Outcome]:
    from rich.progress import Progress

    outcomes: list[_Outcome] = []
    away: CommandError | None = None
    with Progress(console=output.err(), transient=True, disable=len(bundles) < 3 or not sys.stderr.isatty()) as progress:
        for bundle in progress.track(bundles, description="submitting"):
            request = {**envelope, "manifest": bundle.manifest}
            if bundle.supporting:
                request["supporting"] = bundle.supporting
            if away is not None:  # the rest would fare no better
                outcomes.append(_Outcome(bundle=bundle, error=CommandError(f"not sent: {away.message}", code=away.code)))
                continue
            try:
                record, created = client.submit(request, idempotency_key=key)
                outcomes.append(_Outcome(bundle=bundle, record=record, created=created))
            except CommandError as error:
                if error.code is ExitCode.UNREACHABLE:
                    if not outcomes:
                        raise
                    away = error
                outcomes.append(_Outcome(bundle=bundle, error=error))
    return outcomes


def _code(outcome: _Outcome) -> ExitCode:
    return outcome.error.code if outcome.error is not None else ExitCode.OK


def _report(outcomes: list[_Outcome]) -> None:
    """Tell of what was refused, on standard error, and of what was accepted."""
    from workers.cli.records import id_of, region_of, state_of

    for one in outcomes:
        if one.error is not None:
            faults = one.error.faults or (Fault("", "", one.error.message),)
            counted = one.error.faults and one.error.message != str(faults[0])
            head = f"{one.bundle.source}: {one.bundle.name}: {one.error.message if counted else 'refused'}"
            output.tell(CommandError(head, faults=faults))
        elif one.record is not None:
            note = "" if one.created else "  (an earlier submission under this idempotency key)"
            beside = ", ".join(_called(item) for item in one.bundle.supporting)
            note += f"  with {beside}" if beside else ""
            output.write(f"{id_of(one.record)}  {one.bundle.name}  {region_of(one.record)}  {state_of(one.record)}{note}")


def _warn(client: Any, region: str, outcomes: list[_Outcome]) -> None:
    """Say so where what was accepted waits for a region that is drained. The fleet itself places no job of `any` in one."""
    from workers.cli.regions import waits_for

    if region != "any" and any(one.record is not None for one in outcomes) and (told := waits_for(client, region)) is not None:
        output.say(told)


def _called(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata")
    return f"{item.get('kind') or '(no kind)'}/{metadata.get('name') if isinstance(metadata, dict) else '(unnamed)'}"


def _watch(client: Any, outcomes: list[_Outcome], *, as_json: bool, verbose: bool) -> tuple[list[_Outcome], ExitCode]:
    """The outcomes with the last record of each job. Of many jobs, a reader that is no terminal is told the ends alone."""
    from workers.cli.records import id_of, name_of, state_of
    from workers.cli.watching import watch

    def tell(record: Mapping[str, Any]) -> None:
        if not as_json:
            why = None if state_of(record) == "succeeded" else record.get("message") or record.get("reason")
            output.write(f"{id_of(record)}  {name_of(record)}  {state_of(record)}{f'  {why}' if why else ''}")

    sent = list(dict.fromkeys(id_of(one.record) for one in outcomes if one.record is not None))
    quiet = as_json or (len(sent) > 1 and not verbose and not sys.stderr.isatty())
    records = watch(client, sent, quiet=quiet, ended=tell)
    counts = Counter(state_of(record) for record in records.values())
    if not as_json and len(sent) > 1:
        output.say(f"{len(sent)} jobs: {', '.join(f'{count} {state}' for state, count in sorted(counts.items()))}")
    seen = [one if one.record is None else replace(one, record=records[id_of(one.record)]) for one in outcomes]
    return seen, ExitCode.OK if set(counts) == {"succeeded"} else ExitCode.FAILED
