"""The metrics that alarms and dashboards look at: the fleet's own, by the names that it writes, and those of the services."""

from __future__ import annotations

import json
import zlib
from typing import Any, Final, TypeAlias

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from shared.metrics.series import DEVICES_NAMESPACE, FLEET_NAMESPACE

FIVE_MINUTES: Final = Duration.minutes(5)
TEN_MINUTES: Final = Duration.minutes(10)
"""A fleet in which nothing is to do tells of itself every five or six minutes (`shared.health.reading`), so once at least in each of these:
in a shorter period what lasts would seem to end and begin again."""
MINUTE: Final = Duration.minutes(1)

Graph: TypeAlias = Any
"""What a graph draws: an `IMetric` of CDK."""


def fleet(name: str, *, region: str | None = None, **labels: str) -> cloudwatch.Metric:
    """A figure of the fleet's health (`shared.health.telling`), at its highest."""
    where = labels | ({"region": region} if region else {})
    return _metric(FLEET_NAMESPACE, name, where, "Maximum", TEN_MINUTES, label=" ".join([*where.values(), name]))


def devices(name: str, *, region: str, statistic: str = "Average", period: Duration = MINUTE) -> cloudwatch.Metric:
    """A measure of a region's GPUs (`shared.metrics.rollups`, by region); there is one of each minute, also where it is zero."""
    return _metric(DEVICES_NAMESPACE, name, {"region": region}, statistic, period, label=name)


def queue(
    name: str, metric: str = "ApproximateNumberOfMessagesVisible", statistic: str = "Maximum", period: Duration = FIVE_MINUTES
) -> cloudwatch.Metric:
    """What SQS tells of a queue."""
    return _metric("AWS/SQS", metric, {"QueueName": name}, statistic, period, label=name)


def api(api_id: str, metric: str, statistic: str) -> cloudwatch.Metric:
    """What API Gateway tells of an HTTP API."""
    return _metric("AWS/ApiGateway", metric, {"ApiId": api_id}, statistic, FIVE_MINUTES, label=f"{metric} {statistic}")


def table(name: str, metric: str, *, index: str | None = None) -> cloudwatch.Metric:
    """What DynamoDB tells of a table without its indexes, or of one of them: what is of an index is not in the figures of its table.
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html"""
    where = {"TableName": name} | ({"GlobalSecondaryIndexName": index} if index else {})
    return _metric("AWS/DynamoDB", metric, where, "Sum", FIVE_MINUTES, label=f"{index} {metric}" if index else metric)


def function(name: str | None, metric: str, statistic: str = "Sum", period: Duration = FIVE_MINUTES) -> cloudwatch.Metric:
    """What Lambda tells of a function; of all of the account in the region without a name."""
    return _metric("AWS/Lambda", metric, {"FunctionName": name} if name else {}, statistic, period, label=name or f"all {metric}")


def shown(*metrics: cloudwatch.Metric) -> list[Graph]:
    """Metrics for a graph: where the fleet writes no zero, zero is drawn."""
    return [_filled(one) for one in metrics]


def _filled(metric: cloudwatch.Metric) -> Graph:
    # The name of a metric within an expression must be one of its graph.
    name = f"m{zlib.crc32(json.dumps([metric.metric_name, metric.dimensions], sort_keys=True).encode())}"
    return cloudwatch.MathExpression(expression=f"FILL({name}, 0)", using_metrics={name: metric}, label=metric.label, period=metric.period)


def _metric(namespace: str, name: str, dimensions: dict[str, str], statistic: str, period: Duration, *, label: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, dimensions_map=dimensions, statistic=statistic, period=period, label=label
    )
