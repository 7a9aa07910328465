"""How long the bucket keeps what: the one place where that is decided, for `bootstrap` and for whoever makes the bucket otherwise.

| prefix | kept | why |
|---|---|---|
| `usage/` | 90 days | reports are made of it, up to 31 days back; what is older than EC2's spot price history (90 days) can't be priced |
| `adhoc/`, `adhoc-jobs/`, `adhoc-summaries/` | 400 days | reports that were asked for: a year can still be compared with the one before |
| `reports/`, `jobs/`, `summaries/` | for ever | the account of what was spent; some 30 KB an hour and region |
| `logs/` | for ever, unless an installation says for how many days | they belong to jobs |
| `specifications/`, `templates/` | for ever | they belong to jobs and templates, which nobody deletes but their owners |
| `metrics/` | for ever | one object a region |

Where the bucket keeps old versions: of what is written again and again by design (`usage/`, `metrics/`) for a day, of all else for 30.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

USAGE_DAYS: Final = 90
SHORTEST_USAGE_DAYS: Final = 39
"""The look-back of reports (`Settings.costs_look_back_days`, 31 days at most), and the longest window of one that is asked for, 7 days."""
ADHOC_DAYS: Final = 400
OLD_VERSION_DAYS: Final = 30
REWRITTEN_DAYS: Final = 1
UPLOAD_DAYS: Final = 7
"""How long the parts of an upload are kept that was never completed; they are billed, and no listing shows them."""
OURS: Final = "gpufleet-"
"""What the ids of our rules begin with, so that others in the same bucket are left alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LifecycleRule:
    """One rule of S3 for all keys that begin with `prefix`; days after which what it names is deleted, None for never.

    `days`: the object. `old_version_days`: a version since it was overwritten or deleted. `upload_days`: an upload that was begun.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html
    """

    id: str
    prefix: str = ""
    days: int | None = None
    old_version_days: int | None = None
    upload_days: int | None = None

    def as_request(self) -> dict[str, Any]:
        """The rule as `PutBucketLifecycleConfiguration` takes it."""
        found: dict[str, Any] = {"ID": self.id, "Status": "Enabled", "Filter": {"Prefix": self.prefix}}
        if self.days is not None:
            found["Expiration"] = {"Days": self.days}
        if self.old_version_days is not None:
            found["NoncurrentVersionExpiration"] = {"NoncurrentDays": self.old_version_days}
        if self.upload_days is not None:
            found["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": self.upload_days}
        return found


def lifecycle(*, usage_days: int = USAGE_DAYS, log_days: int | None = None) -> tuple[LifecycleRule, ...]:
    """The rules of the fleet's bucket; logs of jobs stay for ever without `log_days`.

    Raises ValueError for usage that would be gone before its reports may be made.
    """
    if usage_days < SHORTEST_USAGE_DAYS:
        raise ValueError(f"usage must be kept for {SHORTEST_USAGE_DAYS} days at least, not {usage_days}: reports are made of it")
    return (
        LifecycleRule(id=f"{OURS}everything", old_version_days=OLD_VERSION_DAYS, upload_days=UPLOAD_DAYS),
        LifecycleRule(id=f"{OURS}usage", prefix="usage/", days=usage_days, old_version_days=REWRITTEN_DAYS),
        LifecycleRule(id=f"{OURS}metrics", prefix="metrics/", old_version_days=REWRITTEN_DAYS),
        *(
            LifecycleRule(id=f"{OURS}{folder}", prefix=f"{folder}/", days=ADHOC_DAYS)
            for folder in ("adhoc", "adhoc-jobs", "adhoc-summaries")
        ),
        *((LifecycleRule(id=f"{OURS}logs", prefix="logs/", days=log_days),) if log_days is not None else ()),
    )


LIFECYCLE: Final = lifecycle()
"""The rules, unless an installation keeps usage longer or logs shorter."""
