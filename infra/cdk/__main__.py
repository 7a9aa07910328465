"""`python -m infra.cdk` synthesizes the stacks into build/cdk.out, or where `cdk` says (`CDK_OUTDIR`). It needs no account."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infra.cdk.settings import Installation
from shared.errors import FleetError


def main() -> int:
    """Synthesize; 2 where the settings are wrong or a package is missing."""
    try:
        installation = Installation.load()
        from infra.cdk.app import build

        build(installation, outdir=Path(os.environ.get("CDK_OUTDIR") or "build/cdk.out")).synth()
    except FleetError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
