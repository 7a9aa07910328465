"""An exporter's answer, of whichever make, as readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.metrics import amd, dcgm
from shared.metrics.devices import Reading
from shared.metrics.exposition import read

_SERIES: Final = dcgm.SERIES | amd.SERIES


@dataclass(frozen=True, kw_only=True, slots=True)
class Scraped:
    """What one answer said. `broken` counts lines that could not be read."""

    readings: tuple[Reading, ...]
    broken: int


def read_exporter(text: str) -> Scraped:
    """The devices in the text of a dcgm-exporter or a device-metrics-exporter; both in one text are fine too."""
    exposition = read(text, names=_SERIES)
    return Scraped(readings=(*dcgm.readings(exposition), *amd.readings(exposition)), broken=exposition.broken)
