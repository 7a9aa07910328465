"""What the table itself tells of the fleet that it belongs to: its regions, and which workers run over it.

Nobody can list the regions of a table without reading all of it. So AWS's regions are asked for by name, and the beats of workers say the
rest: a region that has another name, and of which no worker told anything within a day, stays unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from botocore.session import get_session

from shared.health.beats import SILENT_AFTER, Beat
from shared.store.beats import Beats
from shared.store.regions import Regions
from shared.store.table import Table
from workers.beating import is_gone
from workers.process import owner


async def other_regions(table: Table, regions: Collection[str]) -> dict[str, str]:
    """The regions that the table knows besides these, and by what. Raises UnavailableError."""
    asked = [region for region in aws_regions() if region not in regions]
    store = Regions(table)
    facts, statuses = await store.facts(asked), await store.statuses(asked)
    found = {beat.region: f"a {beat.worker}" for beat in await Beats(table).all() if beat.region is not None and beat.region not in regions}
    found |= {region: "an operator's decision" for region, status in statuses.items() if status.revision}
    found |= {region: "its observer's report" for region, known in facts.items() if known.report is not None}
    return dict(sorted(found.items()))


async def running_since(table: Table, workers: Collection[str], since: datetime, *, now: datetime) -> list[Beat]:
    """The last beats of such workers that told of themselves after a time, and not that they ended. Raises UnavailableError."""
    return [beat for beat in await Beats(table).latest() if beat.worker in workers and beat.at > since and _may_run(beat, now)]


def _may_run(beat: Beat, now: datetime) -> bool:
    return now - beat.at <= SILENT_AFTER and not is_gone(beat.owner, beside=owner(beat.region or "all"))


def aws_regions() -> Sequence[str]:
    """All that botocore knows, of all partitions: nothing is asked of AWS."""
    session = get_session()
    return [
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("sqs", partition_name=partition)
    ]
