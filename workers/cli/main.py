"""The entry point: `gpufleet COMMAND`. Each group of commands is in a file of its own and imports what is slow only when it runs.

Exit codes: 0 done; 1 the job failed or was refused; 2 a bad option, input or filter; 3 not found; 4 conflict; 5 no gpufleet API answers;
6 no key that the API knows.
"""

from __future__ import annotations

import io
import os
import sys

import typer

from workers.cli import (
    costs,
    dead_letters,
    health,
    jobs,
    keys,
    logs,
    metrics,
    openapi,
    policy,
    reconcile,
    regions,
    rejections,
    running,
    setup,
    submit,
    webhooks,
)
from workers.cli.failures import CommandError, ExitCode
from workers.cli.usage import usage

EPILOG = (
    "Exit codes: 0 done; 1 the job failed, was cancelled or was refused; 2 a bad option, input or filter; 3 not found; 4 conflict; "
    "5 no gpufleet API answers; 6 no key that the API knows; 130 Ctrl-C."
)

app = typer.Typer(
    name="gpufleet",
    help="GPU jobs on Kubernetes clusters in many regions, each run exactly once.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (running, submit, jobs, logs, rejections, health, setup, reconcile, openapi):
    group.register(app)
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(keys.app, name="keys")
app.add_typer(metrics.app, name="metrics")
app.add_typer(policy.app, name="policy")
app.add_typer(regions.app, name="regions")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(costs.app, name="costs")


def main() -> None:
    """Run a command and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what the terminal's encoding has not is shown as an escape
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command; returns its exit code and raises nothing that a user could cause. With `--json`, errors are JSON too."""
    try:
        _require_text(arguments)
        code = app(arguments, prog_name="gpufleet", standalone_mode=False)
    except CommandError as error:
        return _told(error, arguments)
    except typer.TyperException as error:
        return _told(usage(error, arguments), arguments)
    except (typer.Abort, KeyboardInterrupt):
        return _told(CommandError("interrupted", code=ExitCode.INTERRUPTED), arguments)
    except BrokenPipeError:
        # The reader of our output has left, as `head` does. Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    return code if isinstance(code, int) else ExitCode.OK


def _require_text(arguments: list[str]) -> None:
    """Raises CommandError for an argument that is not UTF-8: nothing that is sent, looked up or printed could carry it."""
    for number, argument in enumerate(arguments, 1):
        if any("\ud800" <= one <= "\udfff" for one in argument):
            raise CommandError.at(f"argument {number}", argument, "must be UTF-8")


def _told(error: CommandError, arguments: list[str]) -> int:
    from workers.cli import output

    if _wants_json(arguments):
        output.write_json({"error": error.as_json()})
    elif error.code is not ExitCode.INTERRUPTED:
        output.tell(error)
    return error.code


def _wants_json(arguments: list[str]) -> bool:
    """Looked up here, since the command line itself can be what is wrong. After `--` nothing is an option."""
    return "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
