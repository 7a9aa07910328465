"""`gpufleet jobs | job | cancel | events | stats`: what became of what was submitted."""

from __future__ import annotations

from typing import Annotated

import typer

from workers.cli import output
from workers.cli.failures import ExitCode
from workers.cli.options import API, Api, AsJson, Cursor, JobId, Key, Limit


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for name, command in (("jobs", jobs), ("job", job), ("cancel", cancel), ("events", events), ("stats", stats)):
        app.command(name)(command)


def jobs(
    api: Api = API,
    key: Key = None,
    region: Annotated[str | None, typer.Option(help="Only those of this region.")] = None,
    status: Annotated[str | None, typer.Option(help="Only those in this state, such as running.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Only those of this namespace.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    wide: Annotated[bool, typer.Option("--wide", help="With labels.")] = False,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    from workers.cli.client import FleetClient
    from workers.cli.records import job_table, record

    with FleetClient(api, key) as client:
        page = client.jobs(target_region=region, status=status, namespace=namespace, limit=limit, cursor=cursor)
    if as_json:
        output.write_json(page | {"jobs": [record(one) for one in page["jobs"]]})
        return
    job_table(page["jobs"], wide=wide)
    more(page)


def more(page: dict[str, object]) -> None:
    """Say how the list goes on."""
    if page.get("next_cursor"):
        output.say(f"there is more: --cursor {page['next_cursor']}")


def job(
    job_id: JobId,
    api: Api = API,
    key: Key = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its end; exit code 1 unless it succeeds.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Show one job with its executions."""
    from workers.cli.client import FleetClient
    from workers.cli.records import job_page, record, state_of
    from workers.cli.watching import watch as follow

    with FleetClient(api, key) as client:
        if watch:
            follow(client, [job_id], quiet=as_json)
        found = client.job(job_id)
    if as_json:
        output.write_json(record(found))
    else:
        job_page(found)
    done = state_of(found.get("job", found)) == "succeeded"
    return ExitCode.FAILED if watch and not done else ExitCode.OK


def cancel(
    job_id: JobId,
    api: Api = API,
    key: Key = None,
    reason: Annotated[str | None, typer.Option(help="Why; it is kept in the job's history.")] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job. One that waits ends at once; one that runs is stopped on its cluster first."""
    from workers.cli.client import FleetClient
    from workers.cli.records import record

    with FleetClient(api, key) as client:
        answer = client.cancel(job_id, reason=reason)
        said = str(answer.get("message") or f"{job_id} is being cancelled")
        if as_json:
            output.write_json({**record(client.job(job_id)), "answer": said})
            return
    output.write(said)


def events(job_id: JobId, api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Show the history of a job."""
    from workers.cli.client import FleetClient
    from workers.cli.records import EVENT_COLUMNS, event_row

    with FleetClient(api, key) as client:
        answer = client.events(job_id)
    if as_json:
        output.write_json(answer)
    else:
        output.table(EVENT_COLUMNS, map(event_row, answer["events"]), empty="no events")


def stats(api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Count jobs by region and state."""
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        answer = client.stats()
    if as_json:
        output.write_json(answer)
        return
    by_region = answer.get("by_region") or {}
    states = list(dict.fromkeys(state for counts in by_region.values() for state in counts))
    rows = [(region, *(counts.get(state, 0) for state in states)) for region, counts in sorted(by_region.items())]
    output.table(("REGION", *(state.upper() for state in states)), rows, empty="no jobs")
