"""Runs a credential plugin of a real kubeconfig in the environment that `gpufleet up` was started in.

The workers' own environment points at the AWS emulator, with credentials that are none; `aws eks get-token` would take those for real and
make a token that no cluster accepts. So the workers carry the outer environment beside theirs, under a prefix, and the kubeconfig that they
get calls each plugin through this script: `python -S -E outside.py NAME,NAME PROGRAM ARGUMENT…`. The names are of variables that the
kubeconfig itself sets for the plugin; they stay. Nothing secret is written to a file or shown in a command line.

Runs as a script, so it uses nothing but the standard library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

PREFIX = "GPUFLEET_OUTSIDE_"
_OF_THE_PROTOCOL = "KUBERNETES_EXEC_INFO"


def carried(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment under the prefix, to be carried through a worker."""
    return {f"{PREFIX}{name}": value for name, value in environment.items()}


def restored(environment: Mapping[str, str], keep: list[str]) -> dict[str, str]:
    """The environment that was carried, with what the kubeconfig and the protocol of plugins say."""
    outer = {name.removeprefix(PREFIX): value for name, value in environment.items() if name.startswith(PREFIX)}
    return outer | {name: environment[name] for name in [*keep, _OF_THE_PROTOCOL] if name in environment}


def main(arguments: list[str]) -> None:
    """Become the plugin."""
    keep, program = [name for name in arguments[0].split(",") if name], arguments[1:]
    os.execvpe(program[0], program, restored(os.environ, keep))  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
