"""`gpufleet bootstrap`: makes the table, the queues and the bucket. It works on AWS itself, and so needs its credentials, not the API."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode
from workers.cli.options import AsJson


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bootstrap")(bootstrap)


def bootstrap(
    endpoint_url: Annotated[str | None, typer.Option(help="Another endpoint than AWS's own, such as LocalStack's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make the table, the queues and the bucket, or see that they stand. Running it again changes nothing."""
    import asyncio

    from pydantic import ValidationError

    from shared.errors import ConflictError, UnavailableError
    from workers.cli.running import refused
    from workers.local.user_settings import faults_of

    if endpoint_url is not None:
        os.environ["AWS_ENDPOINT_URL"] = endpoint_url
    try:
        report = asyncio.run(_bootstrap())
    except ConflictError as error:
        raise CommandError(str(error), code=ExitCode.CONFLICT) from error
    except UnavailableError as error:
        raise CommandError(str(error), code=ExitCode.UNREACHABLE) from error
    except ValidationError as error:
        raise refused(faults_of(error)) from error
    except ValueError as error:  # botocore's word for an endpoint that is no URL
        raise CommandError(str(error), code=ExitCode.USAGE) from error
    made, stood, notes = report
    if as_json:
        output.write_json({"made": made, "stood": stood, "notes": notes})
        return
    for what in made:
        output.write(f"made   {what}")
    for what in stood:
        output.write(f"stands {what}")
    for note in notes:
        output.say(note)


async def _bootstrap() -> tuple[list[str], list[str], list[str]]:
    from shared.aws import connect
    from shared.settings import Settings
    from shared.store.bootstrap import bootstrap as make

    settings = Settings()
    async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
        report = await make(aws, settings)
    return report.made, report.stood, report.notes
