"""The entry point: `gpufleet COMMAND`. Each group of commands is in a file of its own and imports what is slow only when it runs.

Exit codes: 0 done; 1 the job failed or was refused; 2 a bad option or input; 3 not found; 4 conflict; 5 the API can't be reached.
"""

from __future__ import annotations

import os
import sys

import typer

from workers.cli import dead_letters, jobs, logs, rejections, running, setup, submit
from workers.cli.failures import CommandError, ExitCode

EPILOG = (
    "Exit codes: 0 done; 1 the job failed, was cancelled or was refused; 2 a bad option or input; 3 not found; 4 conflict; "
    "5 the API can't be reached."
)

app = typer.Typer(
    name="gpufleet",
    help="GPU jobs on Kubernetes clusters in many regions, each run exactly once.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (running, submit, jobs, logs, rejections, setup):
    group.register(app)
app.add_typer(dead_letters.app, name="dead-letters")


def main() -> None:
    """Run a command and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command; returns its exit code and raises nothing that a user could cause."""
    from workers.cli import output

    try:
        code = app(arguments, prog_name="gpufleet", standalone_mode=False)
    except CommandError as error:
        output.tell(error)
        return error.code
    except typer.TyperException as error:
        _show(error)
        return ExitCode.USAGE
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left, as `head` does. Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    return code if isinstance(code, int) else ExitCode.OK


def _show(error: typer.TyperException) -> None:
    """Say what is wrong with the command line, with its usage where typer knows it."""
    show = getattr(error, "show", None)
    if show is not None:
        show()
    else:
        sys.stderr.write(f"Error: {error}\n")
