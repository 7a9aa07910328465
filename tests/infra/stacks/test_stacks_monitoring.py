"""The monitoring stack: an alarm for each condition, on figures that are really written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import pytest

from infra.conditions import CONDITIONS, named
from shared.health import telling
from shared.health.figures import figures_of
from shared.health.model import Backlog, Dispatched, FleetHealth, LoopHealth, LoopState, QueueHealth, RegionHealth, WebhookHealth
from shared.metrics.rollups import EXPORTER_FAILURES, EXPORTERS
from shared.metrics.series import DEVICES_NAMESPACE, FLEET_NAMESPACE, SCRAPED_DEVICES
from shared.metrics.vocabulary import Measure
from shared.store.keys import INDEXES
from tests.infra.stacks.assembly import ACCOUNT, KEY

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]
CLOUDWATCH = {"Service": "cloudwatch.amazonaws.com"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEVER_ZERO = {"fleet_observed_age_seconds", "fleet_scrape_age_seconds", "fleet_health_unread"}


def written():
    """Every metric that a fleet of one region may write, with its dimensions: one in which everything is amiss."""
    backlog = Backlog(count=1, oldest_seconds=9.0)
    region = RegionHealth(
        region="us-east-1",
        jobs={},
        ready=backlog,
        claims=backlog,
        overdue=backlog,
        dispatched=Dispatched(jobs=1, median_seconds=1.0, most_seconds=1.0),
        observed_seconds=1.0,
        scraped_seconds=1.0,
    )
    health = FleetHealth(
        at=NOW,
        regions=(region,),
        queues=(QueueHealth(queue="gpufleet-events", dead_letters=1),),
        webhooks=WebhookHealth(waiting=1, overdue_seconds=1.0, webhooks=1, disabled=1),
        loops=tuple(
            LoopHealth(worker=worker, region="us-east-1", owner="host/1", state=LoopState.FAILING, told_seconds=1.0)
            for worker in ("dispatcher", "observer")
        ),
        unread={"scrapes": "S3: no answer"},
    )
    return {
        (one["MetricName"], *sorted((each["Name"], each["Value"]) for each in one["Dimensions"]))
        for one in telling.data(figures_of(health), NOW)
    }


def metrics_of(alarm):
    """Namespace, name and dimensions of every metric that an alarm looks at."""
    listed = [one["MetricStat"]["Metric"] for one in alarm["Metrics"] if "MetricStat" in one] if "Metrics" in alarm else [alarm]
    for one in listed:
        yield one["Namespace"], one["MetricName"], {each["Name"]: each["Value"] for each in one.get("Dimensions", [])}


def alarms(assembly):
    return assembly.monitoring.named("AWS::CloudWatch::Alarm", "AlarmName")


def test_there_is_an_alarm_for_each_condition_and_no_other(five):
    wanted = {f"gpufleet-{one.name}" for one in CONDITIONS if not one.each_region}
    wanted |= {f"gpufleet-{one.name}-{region}" for one in CONDITIONS if one.each_region for region in five.installation.region_names}

    assert set(alarms(five)) == wanted


def test_the_conditions_of_the_issue_are_among_them():
    names = {one.name for one in CONDITIONS}
    assert {"ready-oldest", "overdue", "claims", "dead-letters", "deliveries", "scrapes", "api-errors", "api-latency", "throttles"} <= names
    assert named("claims").runbook == "docs/operations.md#alarm-claims"


def test_each_alarm_says_what_it_means_and_where_its_runbook_is(two):
    for name, alarm in alarms(two).items():
        condition = max((one for one in CONDITIONS if name.startswith(f"gpufleet-{one.name}")), key=lambda one: len(one.name))
        assert alarm["AlarmDescription"].startswith(condition.meaning)
        assert alarm["AlarmDescription"].endswith(f"docs/operations.md#alarm-{condition.name}")


def test_each_alarm_looks_at_a_figure_that_the_fleet_writes(two):
    known = written()
    for name, alarm in alarms(two).items():
        for namespace, metric, dimensions in metrics_of(alarm):
            if namespace == FLEET_NAMESPACE:
                here = {key: "us-east-1" if key == "region" else value for key, value in dimensions.items()}
                assert (metric, *sorted(here.items())) in known, name


def test_what_is_missing_is_good_but_that_the_fleet_is_watched_and_costs_are_called(two):
    found = alarms(two)
    assert {name for name, one in found.items() if one["TreatMissingData"] == "breaching"} == {"gpufleet-unwatched", "gpufleet-costs"}
    assert {one["TreatMissingData"] for one in found.values()} == {"breaching", "notBreaching"}


def test_what_lasts_is_seen_in_every_period_though_an_idle_fleet_tells_of_itself_every_six_minutes_only(two):
    for name, one in alarms(two).items():
        if one.get("Namespace") == FLEET_NAMESPACE:
            assert one["Period"] >= 2 * 300, name


def test_thresholds_are_those_of_the_settings(two, five):
    limits, found = two.installation.alarms, alarms(two)

    assert found["gpufleet-ready-oldest-eu-west-1"]["Threshold"] == limits.oldest_ready_seconds
    assert found["gpufleet-claims-us-east-1"]["Threshold"] == 180
    assert alarms(five)["gpufleet-claims-us-east-1"]["Threshold"] == 1800  # of claims that last ten minutes
    assert found["gpufleet-dead-letters"]["Threshold"] == limits.dead_letters - 1
    assert {one["ComparisonOperator"] for one in found.values()} == {"GreaterThanThreshold"}


def test_no_alarm_looks_at_more_metrics_than_cloudwatch_takes(five):
    # Ten: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html
    counts = {name: len(list(metrics_of(one))) for name, one in alarms(five).items()}
    assert max(counts.values()) == counts["gpufleet-throttles"] == 10


def test_throttles_of_each_index_are_seen_where_jobs_are_claimed_and_changed(two):
    seen = {
        (metric.removesuffix("ThrottleEvents"), dimensions.get("GlobalSecondaryIndexName"))
        for namespace, metric, dimensions in metrics_of(alarms(two)["gpufleet-throttles"])
        if namespace == "AWS/DynamoDB"
    }
    assert {index for kind, index in seen if kind == "Write"} == {None, *INDEXES}
    assert {index for kind, index in seen if kind == "Read"} == {None, *INDEXES} - {"by_namespace"}
    table = two.control.one("AWS::DynamoDB::Table")
    assert {one["IndexName"] for one in table["GlobalSecondaryIndexes"]} == set(INDEXES)
    boards = ("gpufleet", "gpufleet-eu-west-1")
    found = [dimensions for name in boards for namespace, _, dimensions in drawn(widgets(two, name)) if namespace == "AWS/DynamoDB"]
    assert {dimensions.get("GlobalSecondaryIndexName") for dimensions in found} == {None, *INDEXES}


def values(alarm, **told):
    """What an alarm's expression comes to, of the metrics by their names; CloudWatch's functions stand for Python's."""
    (expression,) = [one["Expression"] for one in alarm["Metrics"] if "Expression" in one]
    ids = {one["MetricStat"]["Metric"]["MetricName"]: one["Id"] for one in alarm["Metrics"] if "MetricStat" in one}
    assert set(told) <= set(ids)
    known = {ids[name]: told.get(name) for name in ids}
    functions = {
        "FILL": lambda value, other: other if value is None else value,
        "IF": lambda test, yes, no: yes if test else no,
        "MAX": max,
    }
    return eval(expression.replace(" OR ", " or "), {"__builtins__": {}}, known | functions)  # of our own templates


@pytest.mark.parametrize(
    ("calls", "errors", "rings"), [(6, None, False), (6, 3, False), (6, 4, True), (1, 1, True), (None, None, True), (1, None, False)]
)
def test_costs_ring_when_most_calls_fail_and_when_there_are_none(two, calls, errors, rings):
    alarm = alarms(two)["gpufleet-costs"]
    assert (values(alarm, Invocations=calls, Errors=errors) > alarm["Threshold"]) is rings


@pytest.mark.parametrize(("exporters", "failed", "rings"), [(4, 0, False), (4, 1, False), (4, 2, True), (1, 1, True), (0, 0, False)])
def test_exporters_ring_when_more_than_a_quarter_is_never_read(two, exporters, failed, rings):
    alarm = alarms(two)["gpufleet-exporters-eu-west-1"]
    told = {EXPORTERS: exporters or 0.0, EXPORTER_FAILURES: failed}
    found = values(alarm, **told) if exporters else 0
    assert (found > alarm["Threshold"]) is rings
    statistics = {one["MetricStat"]["Metric"]["MetricName"]: one["MetricStat"]["Stat"] for one in alarm["Metrics"] if "MetricStat" in one}
    # What fails at every scrape of ten minutes: a pod that is still starting isn't told of.
    assert statistics == {EXPORTERS: "Maximum", EXPORTER_FAILURES: "Minimum"}


def test_deliveries_ring_at_each_step_that_is_late(two):
    alarm = alarms(two)["gpufleet-deliveries"]
    late = two.installation.alarms.delivery_overdue_seconds + 1
    assert values(alarm) == 0
    for told in ({"fleet_delivery_overdue_seconds": late}, {"ApproximateAgeOfOldestMessage": late}, {"IteratorAge": late * 1000}):
        assert values(alarm, **told) == late > alarm["Threshold"]
    queues = [dimensions for _, metric, dimensions in metrics_of(alarm) if metric == "ApproximateAgeOfOldestMessage"]
    assert queues == [{"QueueName": "gpufleet-events"}]


def test_an_address_is_told_when_an_alarm_begins_and_ends(two, five):
    assert not [one for one in alarms(two).values() if one.get("AlarmActions")]

    (topic,) = five.monitoring.of("AWS::SNS::Topic")
    subscription = five.monitoring.one("AWS::SNS::Subscription")
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "oncall@example.com")
    for one in alarms(five).values():
        assert one["AlarmActions"] == one["OKActions"] == [{"Ref": topic}]


def test_what_an_alarm_tells_is_taken_by_the_topic_and_its_key(five):
    monitoring, control = five.monitoring, five.control
    source = {"aws:SourceAccount": ACCOUNT}
    (key,) = control.of("AWS::KMS::Key").values()
    uses = [one for one in map(control.resolve, key["KeyPolicy"]["Statement"]) if one["Principal"] == CLOUDWATCH]
    ((_, policy),) = monitoring.of("AWS::SNS::TopicPolicy").items()
    takes = [one for one in map(monitoring.resolve, policy["PolicyDocument"]["Statement"]) if one["Effect"] == "Allow"]
    for name, alarm in alarms(five).items():
        (topic,) = {monitoring.resolve(action) for action in (*alarm["AlarmActions"], *alarm["OKActions"])}
        assert monitoring.resolve(policy["Topics"]) == [topic]
        (taken,) = [one for one in takes if one["Resource"] == topic]
        assert (taken["Principal"], taken["Action"]) == (CLOUDWATCH, "sns:Publish")
        assert taken["Condition"]["StringEquals"] == source
        (pattern,) = taken["Condition"]["ArnLike"].values()
        assert fnmatchcase(f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:{name}", pattern)
        assert not fnmatchcase(f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:another", pattern)

        encrypted = monitoring.resources[topic]["Properties"]["KmsMasterKeyId"]
        exported = {one["Export"]["Name"]: one["Value"] for one in control.document["Outputs"].values() if "Export" in one}
        assert control.resolve(exported[monitoring.resolve(encrypted)]) == KEY
        (used,) = uses
        assert {"kms:Decrypt", "kms:GenerateDataKey"} == set(used["Action"])
        assert used["Condition"] == {"StringEquals": source}


def widgets(assembly, name):
    body = assembly.monitoring.named("AWS::CloudWatch::Dashboard", "DashboardName")[name]["DashboardBody"]
    return json.loads(assembly.monitoring.resolve(body))["widgets"]


def drawn(found):
    """Namespace, name and dimensions of every metric that a dashboard draws."""
    for widget in found:
        for metric in widget["properties"].get("metrics", []):
            parts = [part for part in metric if isinstance(part, str)]
            if parts:
                yield parts[0], parts[1], dict(zip(parts[2::2], parts[3::2], strict=True))


def test_there_is_a_dashboard_for_the_fleet_and_one_for_each_region(five):
    names = set(five.monitoring.named("AWS::CloudWatch::Dashboard", "DashboardName"))
    assert names == {"gpufleet", *(f"gpufleet-{region}" for region in five.installation.region_names)}


def test_dashboards_draw_figures_that_are_written(two):
    known = written()
    devices = {measure.value for measure in Measure} | {SCRAPED_DEVICES, EXPORTER_FAILURES}
    for name in ("gpufleet", "gpufleet-us-east-1"):
        for namespace, metric, dimensions in drawn(widgets(two, name)):
            if namespace == FLEET_NAMESPACE and dimensions.get("region") != "eu-west-1":
                assert (metric, *sorted(dimensions.items())) in known
            if namespace == DEVICES_NAMESPACE:
                assert metric in devices
                assert dimensions == {"region": "us-east-1"}


@pytest.mark.parametrize("name", ["gpufleet", "gpufleet-us-east-1", "gpufleet-eu-west-1"])
def test_a_dashboard_of_two_regions_is_among_those_that_cost_nothing(two, name):
    # Fifty metrics: https://aws.amazon.com/cloudwatch/pricing/
    assert 10 <= len(list(drawn(widgets(two, name)))) <= 50


def test_every_alarm_is_on_the_dashboard_of_the_fleet(two):
    shown = [arn for one in widgets(two, "gpufleet") if one["type"] == "alarm" for arn in one["properties"]["alarms"]]
    assert len(shown) == len(alarms(two))
