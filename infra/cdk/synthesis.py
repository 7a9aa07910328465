"""What the commands of this package have in common: how faults are told, and a folder of a cloud assembly that holds the last one only."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from shared.errors import FleetError, InvalidError

_MARK: Final = "cdk.out"
"""The file by which CDK's command knows a cloud assembly."""
_MADE: Final = (
    *(_MARK, "manifest.json", "tree.json", "validation-report.json"),
    *("asset.*", "assembly-*", "*.template.json", "*.assets.json", "*.metadata.json"),
)
"""What synthesis writes."""
_EXTRA: Final = ("aws_cdk", "cdk_nag", "constructs", "jsii")


def clear(outdir: Path) -> None:
    """Remove from a cloud assembly what was synthesized before: a stack that there no longer is would be deployed from it.

    What is none of that stays, and so does all of a folder that is no cloud assembly.
    """
    if not (outdir / _MARK).is_file():
        return
    for path in outdir.iterdir():
        if any(fnmatchcase(path.name, one) for one in _MADE):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def command(name: str, description: str | None, arguments: Sequence[str], run: Callable[[], None]) -> int:
    """Run a command without arguments; 2 where the settings are wrong, a package is missing or CDK refuses, with a line on each fault."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    try:
        run()
    except InvalidError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
    except FleetError as error:
        sys.stderr.write(f"{error}\n")
    except (RuntimeError, OSError) as error:
        # What CDK throws comes through its bridge (jsii) as such, with JavaScript's stack in the lines after the first.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        sys.stderr.write(f"the stacks can't be synthesized: {lines[0] if lines else type(error).__name__}\n")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(f"{error}: the packages of the extra `infra` must be installed (`pip install -e '.[infra]'`)\n")
    else:
        return 0
    return 2
