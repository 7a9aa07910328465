"""Where a fleet's health is read from, put together from settings and clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from shared.aws import Aws
from shared.clock import Clock
from shared.health.beats import seconds_before
from shared.health.model import WebhookHealth
from shared.health.reading import HealthReader
from shared.metrics.snapshots import Snapshots
from shared.queues.dead_letters import DeadLetters
from shared.settings import Settings
from shared.store.backlogs import Backlogs
from shared.store.beats import Beats
from shared.store.deliveries import Deliveries
from shared.store.keys import Layout
from shared.store.objects import S3Objects
from shared.store.table import Table
from shared.store.webhooks import Webhooks

_WEBHOOKS: Final = 100
"""Of so many, the newest, is it known whether they are disabled."""


class TableWebhooks:
    """How deliveries fare, by their records: nothing is asked while there is no webhook."""

    def __init__(self, deliveries: Deliveries, webhooks: Webhooks) -> None:
        self._deliveries = deliveries
        self._webhooks = webhooks

    async def read(self, now: datetime, *, webhooks: int) -> WebhookHealth:
        """See `WebhookBacklog`."""
        if not webhooks:
            return WebhookHealth()
        first = await self._deliveries.due(limit=1)
        page = await self._webhooks.page(limit=_WEBHOOKS)
        return WebhookHealth(
            waiting=await self._deliveries.waiting() if first else 0,
            overdue_seconds=seconds_before(now, first[0].at) if first and first[0].at <= now else None,
            webhooks=webhooks,
            disabled=sum(webhook.disabled_at is not None for webhook in page.webhooks),
        )


class SnapshotScrapes:
    """The times of the newest snapshots of GPUs."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    async def taken_at(self, regions: Sequence[str]) -> Mapping[str, datetime]:
        """See `Scrapes`."""
        return {snapshot.region: snapshot.at for snapshot in await self._snapshots.latest(regions)}


def health_reader(settings: Settings, aws: Aws, clock: Clock, *, scraped: bool = False) -> HealthReader:
    """A reader over the clients of the control region: `dynamodb`, `sqs` and `s3`. `scraped`: a worker reads the GPUs of its regions."""
    table = Table(aws.dynamodb, settings.table)
    layout = Layout.of(settings)
    return HealthReader(
        regions=settings.regions,
        backlogs=Backlogs(table, layout),
        dead_letters=DeadLetters(aws.sqs, settings),
        loops=Beats(table),
        webhooks=TableWebhooks(Deliveries(table, layout), Webhooks(table)),
        scrapes=SnapshotScrapes(Snapshots(S3Objects(aws.s3, settings.bucket))),
        clock=clock,
        scraped=scraped,
    )
