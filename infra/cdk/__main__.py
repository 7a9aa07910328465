"""`python -m infra.cdk` synthesizes the stacks into build/cdk.out, or where `cdk` says (`CDK_OUTDIR`). It needs no account.

Settings are read from infra/cdk/settings.toml, or from the file that GPUFLEET_INFRA_SETTINGS names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infra.cdk.installed import outdated
from infra.cdk.omissions import omissions
from infra.cdk.packages import check
from infra.cdk.settings import Installation
from infra.cdk.synthesis import clear, command


def synthesize() -> None:
    """Write the cloud assembly, and to standard error what is old and what the settings leave out.

    Raises FleetError, RuntimeError where CDK refuses.
    """
    installation = Installation.load()
    check()
    from infra.cdk.app import build

    outdir = Path(os.environ.get("CDK_OUTDIR") or "build/cdk.out")
    clear(outdir)
    build(installation, outdir=outdir).synth()
    for line in [*outdated(), *omissions(installation)]:
        sys.stderr.write(f"note: {line}\n")


if __name__ == "__main__":
    sys.exit(command("infra.cdk", __doc__, sys.argv[1:], synthesize))
