"""Spot prices of the embedded fleet: a file that its user may edit while it runs, to see jobs wait for their price and go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

PRICES = {"g4dn.xlarge": 0.21, "g5.xlarge": 0.43, "g5.12xlarge": 2.41, "g5.48xlarge": 6.92, "p4d.24xlarge": 11.80, "p5.48xlarge": 24.50}
"""USD an hour, of the order of what EC2 asks; only the file counts, nothing is bought."""


def write_prices(path: Path, regions: Sequence[str]) -> None:
    """Write the file, unless there is one already."""
    if not path.exists():
        path.write_text(json.dumps(dict.fromkeys(regions, PRICES), indent=2) + "\n", encoding="utf-8")
