"""Two sorts of dashboards: the fleet at a glance, and a region.

Three dashboards of up to fifty metrics each cost an account nothing; so an installation of two regions stays within that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.cdk import measures
from infra.cdk.alarms import FleetAlarms
from infra.cdk.names import Naming
from infra.functions import FUNCTIONS, Function, ScheduleSource
from shared.settings import dead_letter_queue
from shared.store.keys import INDEXES

_WIDTH: Final = 8
"""Three graphs in a row of 24 columns."""
_HEIGHT: Final = 6
_SPAN: Final = Duration.hours(12)


def fleet_dashboard(scope: Construct, *, naming: Naming, alarms: FleetAlarms, api_ids: Sequence[str]) -> cloudwatch.Dashboard:
    """The fleet at a glance: what rings, what waits and where, the queues, the API, the functions, the table."""
    name, settings = naming.installation.name, naming.settings
    return cloudwatch.Dashboard(
        scope,
        "Fleet",
        dashboard_name=name,
        default_interval=_SPAN,
        widgets=[
            [cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=24, height=_HEIGHT)],
            [
                _graph("Ready jobs", _by_region(settings.regions, "fleet_ready_jobs")),
                _graph("Oldest ready job, s", _by_region(settings.regions, "fleet_ready_oldest_seconds")),
                _graph("Overdue marks", _by_region(settings.regions, "fleet_overdue_marks")),
            ],
            [
                _graph("Messages", [measures.queue(one) for one in settings.queues()]),
                _graph("Dead letters", [measures.queue(dead_letter_queue(one)) for one in settings.queues()]),
                _graph(
                    "Deliveries of webhooks",
                    measures.shown(measures.fleet("fleet_deliveries_waiting"), measures.fleet("fleet_webhooks_disabled")),
                    measures.shown(measures.fleet("fleet_delivery_overdue_seconds")),
                ),
            ],
            [
                _graph("API requests", [measures.api(one, metric, "Sum") for one in api_ids for metric in ("Count", "4xx", "5xx")]),
                _graph("API latency, ms", [measures.api(one, "Latency", statistic) for one in api_ids for statistic in ("p50", "p99")]),
                _graph(
                    "Table: units consumed, throttled",
                    [measures.table(settings.table, f"Consumed{kind}CapacityUnits") for kind in ("Read", "Write")],
                    [measures.table(settings.table, f"{kind}ThrottleEvents") for kind in ("Read", "Write")],
                ),
            ],
            [
                _graph("Functions: errors", [measures.function(naming.function(one), "Errors") for one in FUNCTIONS]),
                _graph(
                    "Functions that somebody waits for: duration p99, ms",
                    [measures.function(naming.function(one), "Duration", "p99") for one in FUNCTIONS if not _scheduled(one)],
                ),
                _graph("Calls of functions that were refused", [measures.function(None, "Throttles")]),
            ],
        ],
    )


def region_dashboard(scope: Construct, *, naming: Naming, alarms: FleetAlarms, region: str) -> cloudwatch.Dashboard:
    """A region: what waits and for how long, its claims, how fresh what is known of its cluster is, its queue, its workers, its GPUs.

    What the table's indexes refuse is here, where its partitions of them are looked for, though it is of all regions: on the fleet's
    dashboard it would be more than costs nothing.
    """
    queue, table = naming.settings.dispatch_queue(region), naming.settings.table

    def of(*names: str) -> list[measures.Graph]:
        return measures.shown(*(measures.fleet(one, region=region) for one in names))

    return cloudwatch.Dashboard(
        scope,
        f"Region-{region}",
        dashboard_name=f"{naming.installation.name}-{region}",
        default_interval=_SPAN,
        widgets=[
            [cloudwatch.AlarmStatusWidget(title=region, alarms=alarms.of_regions[region], width=24, height=3)],
            [
                _graph("Ready jobs; the oldest, s", of("fleet_ready_jobs"), of("fleet_ready_oldest_seconds")),
                _graph("Claimed jobs; the oldest, s", of("fleet_claimed_jobs"), of("fleet_claim_oldest_seconds")),
                _graph("Overdue marks; the oldest, s", of("fleet_overdue_marks"), of("fleet_overdue_oldest_seconds")),
            ],
            [
                _graph("From submission to commit, s", of("fleet_dispatch_median_seconds", "fleet_dispatch_most_seconds")),
                _graph(
                    "Since the cluster was told of, and GPUs were read, s",
                    [measures.fleet(one, region=region) for one in ("fleet_observed_age_seconds", "fleet_scrape_age_seconds")],
                ),
                _graph("Loops of workers that aren't well", measures.shown(*(_unwell(region, one) for one in ("dispatcher", "observer")))),
            ],
            [
                _graph("Doorbells; dead letters", [measures.queue(queue)], [measures.queue(dead_letter_queue(queue))]),
                _graph(
                    "GPUs: utilization, memory activity, %",
                    [measures.devices(one, region=region) for one in ("gpu_utilization", "gpu_memory_activity")],
                ),
                _graph(
                    "GPUs; W of all",
                    [measures.devices(one, region=region, statistic="Maximum") for one in ("gpu_devices", "gpu_exporter_failures")],
                    [measures.devices("gpu_power", region=region, statistic="Sum")],
                ),
            ],
            [
                _graph(
                    "Indexes of the table, of all regions: throttled",
                    [measures.table(table, f"{kind}ThrottleEvents", index=one) for one in INDEXES for kind in ("Read", "Write")],
                )
            ],
        ],
    )


def _scheduled(function: Function) -> bool:
    return all(isinstance(source, ScheduleSource) for source in function.sources)


def _by_region(regions: Sequence[str], name: str) -> list[measures.Graph]:
    return measures.shown(*(measures.fleet(name, region=region) for region in regions))


def _unwell(region: str, worker: str) -> cloudwatch.Metric:
    return measures.fleet("fleet_loops_unwell", region=region, worker=worker)


def _graph(title: str, left: Sequence[measures.Graph], right: Sequence[measures.Graph] = ()) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(left), right=list(right), width=_WIDTH, height=_HEIGHT)
