"""`gpufleet bootstrap`: makes the table, the queues and the bucket. It works on AWS itself, and so needs its credentials, not the API."""

from __future__ import annotations

import os
from pathlib import Path
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
    first_key: Annotated[
        Path | None, typer.Option(help="Make an administrator's key too, where nobody has one yet, and write it into this new file.")
    ] = None,
    replace_key: Annotated[
        bool, typer.Option("--replace-key", help="Replace that file, if it is there and nobody has a key yet: its old key is lost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the table, the queues and the bucket, or see that they stand. Running it again changes nothing."""
    if endpoint_url is not None:
        os.environ["AWS_ENDPOINT_URL"] = endpoint_url
    made, stood, notes = _made(first_key, replace=replace_key)
    if as_json:
        output.write_json({"made": made, "stood": stood, "notes": notes})
        return
    for what in made:
        output.write(f"made   {what}")
    for what in stood:
        output.write(f"stands {what}")
    for note in notes:
        output.say(note)


def _made(first_key: Path | None, *, replace: bool) -> tuple[list[str], list[str], list[str]]:
    """What was made, what stood, and notes. Raises CommandError."""
    import asyncio

    from pydantic import ValidationError

    from shared.errors import ConflictError, InvalidError, UnavailableError
    from workers.cli.running import refused
    from workers.local.user_settings import faults_of

    try:
        return asyncio.run(_bootstrap(first_key, replace=replace))
    except InvalidError as error:
        raise CommandError.of(error.problems, told=f"{len(error.problems)} settings can't be used") from error
    except ConflictError as error:
        raise CommandError(str(error), code=ExitCode.CONFLICT) from error
    except UnavailableError as error:
        raise CommandError(str(error), code=ExitCode.UNREACHABLE) from error
    except ValidationError as error:
        raise refused(faults_of(error)) from error
    except OSError as error:
        raise CommandError(f"{first_key}: {error.strerror}", code=ExitCode.USAGE) from error
    except ValueError as error:  # botocore's word for an endpoint that is no URL
        raise CommandError(str(error), code=ExitCode.USAGE) from error


async def _bootstrap(first_key: Path | None, *, replace: bool) -> tuple[list[str], list[str], list[str]]:
    from shared.aws import connect
    from shared.clock import SystemClock
    from shared.settings import Settings
    from shared.store.api_keys import ApiKeys
    from shared.store.bootstrap import bootstrap as make
    from shared.store.bootstrap import table_stands
    from shared.store.table import Table
    from workers.first_key import ADMINISTRATOR, has_administrator, make_first_key
    from workers.secret_files import write_new_secret, write_secret

    settings, clock = Settings(), SystemClock()
    write = write_secret if replace else write_new_secret
    async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
        keys = ApiKeys(Table(aws.dynamodb, settings.table))
        kept = None if replace or first_key is None or not os.path.lexists(first_key) else first_key  # noqa: ASYNC240  # a look, once
        if kept is not None and not (await table_stands(aws, settings) and await has_administrator(keys, clock)):
            raise _is_there(kept)
        report = await make(aws, settings)
        if first_key is not None:
            path = first_key
            try:
                made = await make_first_key(keys, clock, by="gpufleet bootstrap", keep=lambda text: write(path, text))
            except FileExistsError as error:  # it has come meanwhile
                raise _is_there(path) from error
            report.say(f"key {ADMINISTRATOR} in {path}" if made else "an administrator's key", made=made)
    return report.made, report.stood, report.notes


def _is_there(path: Path) -> CommandError:
    rule = "must not be there: it may be the only copy of a key, and this table knows none; move it away, or say --replace-key"
    return CommandError.at("--first-key", str(path), rule)
