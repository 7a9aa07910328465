"""`gpufleet costs report | list | show`: what was used, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from workers.cli import output
from workers.cli.durations import seconds_of
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import API, Api, AsJson, Key, Limit

app = typer.Typer(help="What was used, and what it cost.", no_args_is_help=True)

GROUPS: Final = ("job", "execution", "namespace", "label", "submitter", "cluster", "region", "instance-type", "capacity-type")

Region = Annotated[str | None, typer.Option("--region", help="A region of the fleet; the API's own, unless said.")]
Since = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Such as 2026-07-26T09:00Z, or 12h: so long ago.")]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="The same; now, unless said.")]


@app.command()
def report(
    hours: Annotated[int | None, typer.Option("--hours", min=1, max=168, help="The last hours; 24, unless said.")] = None,
    since: Since = None,
    to: To = None,
    region: Region = None,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Write a report of the last hours, or of a time of 5 minutes to 7 days, and print its key. For administrators."""
    from workers.cli.cost_client import CostClient

    if hours is not None and (since or to):
        raise CommandError.at("--hours", hours, "must be given alone, or --from and --to instead of it")
    if to is not None and since is None:
        raise CommandError.at("--to", to, "must come with --from")
    wanted: dict[str, Any] = {} if region is None else {"region": region}
    if since is not None:
        wanted |= _window(since, to)
    else:
        wanted |= {"hours": hours or 24}
    with CostClient(api, key) as client:
        summary = client.write_cost_report(wanted)
    if as_json:
        output.write_json(summary)
        return
    _tell_summary(summary)
    output.write(summary["allocation_key"])


@app.command("list")
def list_all(
    adhoc: Annotated[bool, typer.Option("--adhoc", help="Those that were asked for, instead of the schedule's.")] = False,
    region: Region = None,
    limit: Limit = 50,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the newest reports."""
    from workers.cli.cost_client import CostClient

    with CostClient(api, key) as client:
        answer = client.cost_reports(adhoc=adhoc, region=region, limit=limit)
        others = not (adhoc or as_json or answer["reports"]) and client.cost_reports(adhoc=True, region=region, limit=1)["reports"]
    if as_json:
        output.write_json(answer)
        return
    rows = [
        (output.moment(one["window_start"]), output.moment(one["window_end"]), output.moment(one["last_modified"]), one["key"])
        for one in answer["reports"]
    ]
    empty = "no reports yet; `gpufleet costs report` writes one"
    if others:
        where = f" --region {region}" if region else ""
        empty = f"no reports of the schedule yet; `gpufleet costs list --adhoc{where}` lists those that were asked for"
    output.table(("FROM", "TO", "WRITTEN", "KEY"), rows, empty=empty)


@app.command()
def show(
    report_key: Annotated[str | None, typer.Argument(metavar="[KEY|latest]", help="A report; the newest, unless said.")] = None,
    by: Annotated[str, typer.Option("--by", help=f"{', '.join(GROUPS)}; label:KEY for the values of one label.")] = "namespace",
    since: Since = None,
    to: To = None,
    region: Region = None,
    limit: Limit = 100,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Draw it into this file, which ends with .png, too.")] = None,
    api: Api = API,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show what a report has, or all reports of a time with --from: a row for each job, namespace, value of a label…

    Of a time in which no report of the schedule lies nothing is known: exit code 3.

    What was idle of the nodes is a row of its own. USD; * marks hours whose price nobody knows, so that their cost is missing.
    """
    from workers.cli.cost_client import CostClient

    group, colon, label = by.partition(":")
    if group not in GROUPS or (colon and (group != "label" or not label)):
        raise CommandError.at("--by", by, f"must be one of {', '.join(GROUPS)}, or label:KEY")
    choice: dict[str, Any] = {"by": group.replace("-", "_"), "label": label or None, "region": region, "limit": limit}
    if report_key is not None and (since or to):
        raise CommandError.at("--from" if since else "--to", since or to, "must be without a KEY")
    if region is not None and report_key not in {None, "latest"}:
        raise CommandError.at("--region", region, "must be without a KEY, which is of one region")
    if png is not None and png.suffix.lower() != ".png":
        raise CommandError.at("--png", str(png), "must end with .png, which is what is drawn")
    with CostClient(api, key) as client:
        if since is not None or to is not None:
            start, end = since and _time("--from", since), to and _time("--to", to)
            try:
                answer = client.costs(**choice, **{"from": start, "to": end})
            except CommandError as error:
                if error.code is not ExitCode.NOT_FOUND:
                    raise
                raise CommandError(f"{error.message}; `{_asking(start, end, region)}` writes one now", code=error.code) from error
        else:
            answer = client.cost_report(report_key or "latest", **choice)
    if png is not None:
        from workers.cli.cost_plots import draw

        draw(answer, png)
    if as_json:
        output.write_json(answer)
        return
    _show(answer, by)


def _show(answer: Mapping[str, Any], by: str) -> None:
    from workers.cli.cost_plots import table

    totals = answer["totals"]
    if totals:
        table(totals, by.upper())
    else:
        output.say("no usage is known" if answer["incomplete"] else "nothing was used")
    between = f"{output.moment(answer['start'])} to {output.moment(answer['end'])} in {answer['region']}"
    told = f", the first {len(totals)} of {answer['count']} rows" if answer["count"] > len(totals) else ""
    cost = f"{usd(answer['total_cost'])} USD, " if totals or not answer["incomplete"] else ""
    output.say(f"{cost}{between}{told}")
    summary = answer.get("summary")
    if summary:
        _tell_known(summary)
    elif answer.get("incomplete"):
        output.say(f"{answer['incomplete']} of {answer['reports']} reports know only a part of their window")
    if answer.get("missing"):
        output.say(f"no reports of {_spans(answer['missing'])}")
    if summary:
        _tell_prices(summary)


def _asking(since: str | None, to: str | None, region: str | None) -> str:
    """The command that writes a report of what was asked for, the last day unless said, as far as one may cover it."""
    from shared.costs.windows import LONGEST, SHORTEST

    end = (datetime.fromisoformat(to) if to else datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    start = datetime.fromisoformat(since).astimezone(UTC).replace(microsecond=0) if since else end - timedelta(hours=24)
    start = min(max(start, end - LONGEST), end - SHORTEST)
    times = [moment.isoformat().replace("+00:00", "Z") for moment in (start, end)]
    return f"gpufleet costs report --from {times[0]} --to {times[1]}" + (f" --region {region}" if region else "")


def _tell_summary(summary: Mapping[str, Any]) -> None:
    parts = [f"{name} {usd(summary[f'{name}_cost'])}" for name in ("jobs", "other", "idle")]
    output.say(f"{usd(summary['total_cost'])} USD: {', '.join(parts)}")
    _tell_known(summary)
    _tell_prices(summary)


def _tell_known(summary: Mapping[str, Any]) -> None:
    """Of which times of a report usage is known: what is left between its gaps, which are by time."""
    if summary["complete"]:
        return
    starts = [summary["window_start"], *(gap["end"] for gap in summary["gaps"])]
    ends = [*(gap["start"] for gap in summary["gaps"]), summary["window_end"]]
    known = [{"start": start, "end": end} for start, end in zip(starts, ends, strict=True) if start != end]
    output.say(f"usage is known of {_spans(known)} only" if known else "no usage is known of any of this time")


def _tell_prices(summary: Mapping[str, Any]) -> None:
    told = [f"{one['source']} of {one['as_of']}" if one.get("as_of") else one["source"] for one in summary.get("prices") or ()]
    if told:
        output.say(f"prices: {', '.join(told)}")
    compared = summary.get("opencost")
    if compared:
        output.say(f"OpenCost: {compared['error'] or usd(compared['total_cost']) + ' USD'}")


def _spans(those: Sequence[Mapping[str, Any]]) -> str:
    return f"{', '.join(map(_span, those[:3]))}{' …' if len(those) > 3 else ''}"


def _span(one: Mapping[str, Any]) -> str:
    return f"{output.moment(one['start'])} to {output.moment(one['end'])}"


def usd(text: str) -> str:
    """Money, or hours, as people read it: cents, and more digits where there would be none."""
    amount = Decimal(text)
    return f"{amount:,.2f}" if not amount or abs(amount) >= Decimal("0.01") else f"{amount:.3g}"


def _window(since: str, to: str | None) -> dict[str, str]:
    """The time of a report. Raises CommandError."""
    from shared.costs.windows import LONGEST, SHORTEST

    start, end = _time("--from", since), _time("--to", to or "now")
    length = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    if length <= timedelta(0) and to is not None:
        raise CommandError.at("--to", to, f"must be after --from, {start}")
    if not SHORTEST <= length <= LONGEST:
        raise CommandError.at("--from", since, f"must be from 5 minutes to 7 days before the end, {end}")
    return {"start": start, "end": end}


def _time(field: str, text: str) -> str:
    """A time as the API takes it. Raises CommandError."""
    if text == "now":
        return datetime.now(UTC).replace(microsecond=0).isoformat()
    if text[:1].isdigit() and text[-1:] in "mhd" and text[:-1].isdigit():
        return (datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=seconds_of(text, field=field))).isoformat()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError.at(field, text, "must be a time such as 2026-07-26T09:00Z, or 12h: so long ago") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()
