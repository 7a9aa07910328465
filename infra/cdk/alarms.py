"""An alarm for each condition of `infra.conditions`.

The fleet writes nothing that is zero, so a metric that is missing is good news to every alarm but two: `unwatched`, which rings when nobody
reads the fleet's health, and `costs`, of which no other figure tells that nobody calls. An alarm costs ten cents a month for each metric
that it looks at, and looks at ten of them at most
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.cdk import measures
from infra.cdk.names import Naming
from infra.conditions import CONDITIONS, Condition
from infra.functions import named as function_named
from shared.health.telling import HEARTBEAT
from shared.metrics.rollups import EXPORTER_FAILURES, EXPORTERS
from shared.store.keys import INDEXES, NAMESPACE_INDEX

_FEW_REQUESTS: Final = 20
"""Of fewer requests in five minutes no share is made: one of one that fails would be all of them."""
_HOUR: Final = Duration.hours(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trigger:
    """When a condition holds: the metric is above `above` in so many periods in a row. `missing_is_bad`: so is a period without a value."""

    metric: cloudwatch.IMetric
    above: float
    periods: int = 1
    missing_is_bad: bool = False


class FleetAlarms(Construct):
    """All alarms. `topic` is told when one begins and when it ends; without it they are seen, and tell nobody."""

    def __init__(self, scope: Construct, construct_id: str, *, naming: Naming, api_ids: Sequence[str], topic: sns.ITopic | None) -> None:
        super().__init__(scope, construct_id)
        self._naming = naming
        self._topic = topic
        self.of_fleet: list[cloudwatch.Alarm] = []
        self.of_regions: dict[str, list[cloudwatch.Alarm]] = {region: [] for region in naming.installation.region_names}
        for condition in CONDITIONS:
            if condition.each_region:
                for region in naming.installation.region_names:
                    trigger = _of_region(naming, region)[condition.name]
                    self.of_regions[region].append(self._alarm(condition, trigger, region))
            else:
                self.of_fleet.append(self._alarm(condition, _of_fleet(naming, api_ids)[condition.name]))

    def __iter__(self) -> Iterator[cloudwatch.Alarm]:
        yield from self.of_fleet
        for alarms in self.of_regions.values():
            yield from alarms

    def _alarm(self, condition: Condition, trigger: Trigger, region: str | None = None) -> cloudwatch.Alarm:
        name = "-".join(part for part in (self._naming.installation.name, condition.name, region) if part)
        missing = cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            "-".join(part for part in (condition.name, region) if part),
            alarm_name=name,
            alarm_description=f"{condition.meaning} {condition.action} Runbook: {condition.runbook}",
            metric=trigger.metric,
            threshold=trigger.above,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=trigger.periods,
            datapoints_to_alarm=trigger.periods,
            treat_missing_data=missing.BREACHING if trigger.missing_is_bad else missing.NOT_BREACHING,
        )
        if self._topic is not None:
            action = actions.SnsAction(self._topic)
            alarm.add_alarm_action(action)
            alarm.add_ok_action(action)
        return alarm


def _of_region(naming: Naming, region: str) -> Mapping[str, Trigger]:
    limits, claimed = naming.installation.alarms, naming.installation.claim_alarm_seconds
    return {
        "ready-oldest": Trigger(metric=measures.fleet("fleet_ready_oldest_seconds", region=region), above=limits.oldest_ready_seconds),
        "overdue": Trigger(metric=measures.fleet("fleet_overdue_oldest_seconds", region=region), above=limits.overdue_seconds),
        "claims": Trigger(metric=measures.fleet("fleet_claim_oldest_seconds", region=region), above=claimed),
        "observed": Trigger(metric=measures.fleet("fleet_observed_age_seconds", region=region), above=limits.observed_seconds),
        "scrapes": Trigger(metric=measures.fleet("fleet_scrape_age_seconds", region=region), above=limits.scrape_seconds),
        "exporters": Trigger(metric=_unread_exporters(region), above=limits.exporter_failures_percent, periods=2),
    }


def _of_fleet(naming: Naming, api_ids: Sequence[str]) -> Mapping[str, Trigger]:
    limits, settings = naming.installation.alarms, naming.settings
    submissions = measures.queue(settings.submissions_queue, "ApproximateAgeOfOldestMessage")
    return {
        "unwatched": Trigger(metric=measures.fleet(HEARTBEAT), above=0, periods=2, missing_is_bad=True),
        "dead-letters": Trigger(metric=measures.fleet("fleet_dead_letters"), above=limits.dead_letters - 1),
        "submissions": Trigger(metric=submissions, above=limits.submissions_seconds, periods=2),
        "deliveries": Trigger(metric=_delivery_lag(naming), above=limits.delivery_overdue_seconds),
        "webhooks-disabled": Trigger(metric=measures.fleet("fleet_webhooks_disabled"), above=0),
        "api-errors": Trigger(metric=_error_share(api_ids), above=limits.api_errors_percent, periods=3),
        "api-latency": Trigger(metric=_latency(api_ids), above=limits.api_p99_milliseconds, periods=3),
        "throttles": Trigger(metric=_throttles(settings.table), above=limits.throttles, periods=2),
        "costs": Trigger(metric=_failing(naming.function(function_named("costs"))), above=0, missing_is_bad=True),
    }


def _error_share(api_ids: Sequence[str]) -> cloudwatch.IMetric:
    """Percent of the requests of all APIs that were answered with 5xx."""
    errors = {f"e{number}": measures.api(one, "5xx", "Sum") for number, one in enumerate(api_ids)}
    counts = {f"c{number}": measures.api(one, "Count", "Sum") for number, one in enumerate(api_ids)}
    failed, asked = (" + ".join(f"FILL({name}, 0)" for name in names) for names in (errors, counts))
    share = f"IF(({asked}) >= {_FEW_REQUESTS}, 100 * ({failed}) / ({asked}), 0)"
    return _expression(share, errors | counts, label="5xx of 100 requests", period=measures.FIVE_MINUTES)


def _latency(api_ids: Sequence[str]) -> cloudwatch.IMetric:
    """The 99th percentile of the slower API, in milliseconds."""
    found = {f"l{number}": measures.api(one, "Latency", "p99") for number, one in enumerate(api_ids)}
    if len(found) == 1:
        return found["l0"]
    slower = f"MAX([{', '.join(f'FILL({name}, 0)' for name in found)}])"
    return _expression(slower, found, label="Latency p99", period=measures.FIVE_MINUTES)


def _throttles(table: str) -> cloudwatch.IMetric:
    """What was refused: by the table or one of its indexes, or by Lambda, whose concurrency all functions of the account share.

    Ten metrics are all that there may be, so who lists a namespace isn't among them (reads of `by_namespace`). Lambda's is there in every
    minute; alarms on DynamoDB's alone would stay as they are when nothing is refused any more and so nothing is told
    (`TreatMissingData` of https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html).
    """
    found = {
        "f": measures.function(None, "Throttles"),
        "r": measures.table(table, "ReadThrottleEvents"),
        "w": measures.table(table, "WriteThrottleEvents"),
        **{f"w_{one}": measures.table(table, "WriteThrottleEvents", index=one) for one in INDEXES},
        **{f"r_{one}": measures.table(table, "ReadThrottleEvents", index=one) for one in INDEXES if one != NAMESPACE_INDEX},
    }
    return _expression(" + ".join(f"FILL({name}, 0)" for name in found), found, label="refused", period=measures.FIVE_MINUTES)


def _unread_exporters(region: str) -> cloudwatch.IMetric:
    """Percent of a region's exporters that no scrape of ten minutes has read: one whose pod is still starting is none of them."""
    found = {
        "failed": measures.devices(EXPORTER_FAILURES, region=region, statistic="Minimum", period=measures.TEN_MINUTES),
        "all": measures.devices(EXPORTERS, region=region, statistic="Maximum", period=measures.TEN_MINUTES),
    }
    return _expression("IF(all > 0, 100 * failed / all, 0)", found, label="exporters unread of 100", period=measures.TEN_MINUTES)


def _delivery_lag(naming: Naming) -> cloudwatch.IMetric:
    """Seconds that webhooks are behind at the slowest of their steps: the table's stream, the queue of events, deliveries themselves."""
    relay = naming.function(function_named("webhooks-relay"))
    found = {
        "due": measures.fleet("fleet_delivery_overdue_seconds"),
        "events": measures.queue(naming.settings.events_queue, "ApproximateAgeOfOldestMessage", period=measures.TEN_MINUTES),
        # Of the last record of each batch, in milliseconds; a batch that fails comes again and grows older.
        "stream": measures.function(relay, "IteratorAge", "Maximum", measures.TEN_MINUTES),
    }
    expression = "MAX([FILL(due, 0), FILL(events, 0), FILL(stream, 0) / 1000])"
    return _expression(expression, found, label="seconds behind", period=measures.TEN_MINUTES)


def _failing(function: str) -> cloudwatch.IMetric:
    """1 where of an hour's calls of a function most failed or none was good; none was made where its schedule is disabled."""
    found = {name: measures.function(function, metric, period=_HOUR) for name, metric in (("calls", "Invocations"), ("errors", "Errors"))}
    # Six calls an hour; one that fails is made good by the next.
    expression = "IF((FILL(errors, 0) > 3) OR (FILL(calls, 0) - FILL(errors, 0) < 1), 1, 0)"
    return _expression(expression, found, label="not done", period=_HOUR)


def _expression(text: str, found: Mapping[str, cloudwatch.IMetric], *, label: str, period: Duration) -> cloudwatch.IMetric:
    return cloudwatch.MathExpression(expression=text, using_metrics=found, label=label, period=period)
