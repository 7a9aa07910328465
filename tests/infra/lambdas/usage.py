"""What an observer told of the last hours: a node, and a pod of a job on it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from shared.costs.model import Window
from shared.costs.usage_documents import UsageDocument, document_key, encode, hour_of
from shared.store.objects import S3Objects
from tests.conftest import FleetResources
from tests.unit.costs.builders import REGION, node, pod


async def ledger(resources: FleetResources, *, hours: int) -> datetime:
    """Documents of so many whole hours and of the one that runs; gives the beginning of the first."""
    objects = S3Objects(resources.aws.s3, resources.settings.bucket)
    now = datetime.now(UTC)
    first = hour_of(now) - timedelta(hours=hours)
    for number in range(hours + 1):
        hour = first + timedelta(hours=number)
        document = UsageDocument(
            version=1,
            region=REGION,
            cluster=REGION,
            observer="o1",
            hour=hour,
            all_pods=True,
            covered=[Window(hour, min(hour + timedelta(hours=1), now))],
            nodes=[node(start=first)],
            pods=[pod(start=first)],
        )
        await objects.put(document_key(document), encode(document))
    return first
