"""The parts of the costs, put together from settings and clients, for the API and for the cost worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.aws import Aws
from shared.clock import Clock, SystemClock
from shared.costs.backlog import Backlog
from shared.costs.opencost import OpenCost
from shared.costs.queries import CostQueries
from shared.costs.region_costs import RegionCosts
from shared.costs.report_store import ReportStore
from shared.costs.reporting import Reporter
from shared.costs.sources import region_prices
from shared.costs.usage_reader import UsageReader
from shared.errors import InvalidError, Problem
from shared.ids import Ids, RandomIds
from shared.settings import Settings
from shared.store.objects import S3Objects
from workers.about import cluster_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Costing:
    """Makes what knows and reports the costs of each region. Clients of AWS are connected when they are first asked something."""

    settings: Settings
    aws: Aws
    clock: Clock
    ids: Ids

    @property
    def objects(self) -> S3Objects:
        """The bucket."""
        return S3Objects(self.aws.s3, self.settings.bucket)

    @property
    def store(self) -> ReportStore:
        """The reports in it."""
        return ReportStore(self.objects)

    @property
    def queries(self) -> CostQueries:
        """Sums of reports."""
        return CostQueries(self.store)

    @property
    def length(self) -> timedelta:
        """How long the windows of the schedule are."""
        return timedelta(minutes=self.settings.costs_interval_minutes)

    def known(self, region: str) -> str:
        """A region of the fleet. Raises InvalidError for any other."""
        if region not in self.settings.regions:
            rule = f"must be a region of the fleet: {', '.join(self.settings.regions)}"
            raise InvalidError([Problem(pointer="/region", value=region, rule=rule)])
        return region

    def reporter(self, region: str) -> Reporter:
        """Who makes a region's reports."""
        return Reporter(
            region=self.known(region),
            usage=UsageReader(objects=self.objects, clock=self.clock),
            prices=region_prices(self.settings, self.aws, region, self.clock),
            store=self.store,
            clock=self.clock,
            nonce=self.ids.nonce,
            opencost=self.opencost(region),
        )

    def backlog(self, region: str) -> Backlog:
        """Who knows which reports of a region are wanted."""
        return Backlog(
            region=self.known(region),
            store=self.store,
            objects=self.objects,
            clock=self.clock,
            length=self.length,
            look_back=timedelta(days=self.settings.costs_look_back_days),
        )

    def region(self, region: str) -> RegionCosts:
        """The reports of a region."""
        return RegionCosts(
            region=self.known(region),
            cluster=cluster_id(region),
            bucket=self.settings.bucket,
            store=self.store,
            reporter=self.reporter(region),
            clock=self.clock,
            length=self.length,
            opencost=self.opencost(region),
        )

    def opencost(self, region: str) -> OpenCost | None:
        """OpenCost of a region, where it is configured."""
        url = self.settings.opencost_url
        return OpenCost(url.replace("{region}", region), self.clock) if url else None


def costing(settings: Settings, aws: Aws, *, clock: Clock | None = None) -> Costing:
    """The costs over the clients of the control region, of which S3 is needed."""
    return Costing(settings=settings, aws=aws, clock=clock or SystemClock(), ids=RandomIds())
