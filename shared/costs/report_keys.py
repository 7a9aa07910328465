"""Where the files of a report stand in the bucket. Those of the schedule have one place for each region and window.

| key | what |
|---|---|
| `reports/region=<r>/date=<day of the window's start>/allocation-<start>-<end>.parquet` | a row for each namespace, as GCO has it |
| `jobs/region=<r>/date=<the same>/jobs-<start>-<end>.parquet` | a row for each execution and kind of node |
| `summaries/region=<r>/date=<the same>/summary-<start>-<end>.json` | totals, completeness, where prices came from |
| `adhoc/…/allocation-<start>-<end>-<8 hex digits>.parquet`, `adhoc-jobs/…`, `adhoc-summaries/…` | the same of one that was asked for |

Each kind has a prefix of its own, for Athena takes every file under a table's prefix for one of the table's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final, Self

from shared.costs.model import Window
from shared.costs.windows import from_stamp, stamp
from shared.errors import InvalidError

_STAMP: Final = r"\d{8}T\d{6}Z"
_KEY: Final = re.compile(
    rf"(?P<folder>reports|adhoc)/region=(?P<region>[a-z0-9-]+)/date=(?P<day>\d{{4}}-\d\d-\d\d)/"
    rf"allocation-(?P<start>{_STAMP})-(?P<end>{_STAMP})(?:-(?P<nonce>[0-9a-f]{{8}}))?\.parquet"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportKeys:
    """The keys of one report. `nonce`, 8 hexadecimal digits, is of one that was asked for; `day` is then the day on which it was."""

    region: str
    window: Window
    day: date
    nonce: str | None = None

    @classmethod
    def scheduled(cls, region: str, window: Window) -> Self:
        """The keys of a window of the schedule, which are the same whenever and by whomever it is reported."""
        return cls(region=region, window=window, day=window.start.date())

    @classmethod
    def parse(cls, key: str) -> Self | None:
        """The report whose allocation has this key; None for any other key."""
        found = _KEY.fullmatch(key)
        if found is None or (found["folder"] == "adhoc") != (found["nonce"] is not None):
            return None
        try:
            window = Window(from_stamp(found["start"]), from_stamp(found["end"]))
            return cls(region=found["region"], window=window, day=date.fromisoformat(found["day"]), nonce=found["nonce"])
        except (ValueError, InvalidError):
            return None

    @property
    def adhoc(self) -> bool:
        """Whether it was asked for."""
        return self.nonce is not None

    @property
    def allocation(self) -> str:
        """The key of the rows by namespace, by which a report is known."""
        return f"{folder(self.region, adhoc=self.adhoc)}date={self.day}/allocation-{self._stem}.parquet"

    @property
    def jobs(self) -> str:
        """The key of the rows by execution."""
        return f"{'adhoc-' if self.adhoc else ''}jobs/region={self.region}/date={self.day}/jobs-{self._stem}.parquet"

    @property
    def summary(self) -> str:
        """The key of the summary."""
        return f"{'adhoc-' if self.adhoc else ''}summaries/region={self.region}/date={self.day}/summary-{self._stem}.json"

    @property
    def _stem(self) -> str:
        return "-".join([stamp(self.window.start), stamp(self.window.end), *([self.nonce] if self.nonce else [])])


def folder(region: str, *, adhoc: bool) -> str:
    """What the keys of a region's reports begin with, up to the day."""
    return f"{'adhoc' if adhoc else 'reports'}/region={region}/"
