"""One snapshot, told to Prometheus, to CloudWatch, and in the log of a Lambda function."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from shared.health import telling
from shared.health.beats import EVERY, SILENT_AFTER, STALLED_AFTER, Beat, state_of
from shared.health.figures import TEXTS, figures_of
from shared.health.model import Backlog, Dispatched, FleetHealth, LoopState, QueueHealth, RegionHealth, WebhookHealth
from shared.metrics.series import FLEET_NAMESPACE
from workers.loops import Passes

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


def beat(worker: str, seconds: float = 10, *, region: str | None = None, **fields) -> Beat:
    return Beat(worker=worker, region=region, owner="host/1", at=NOW - timedelta(seconds=seconds), release="0.2.0", **fields)


HEALTH = FleetHealth(
    at=NOW,
    regions=(
        RegionHealth(
            region="us-east-1",
            jobs={"queued": 7, "claimed": 2, "pending": 0, "running": 4, "succeeded": 900},
            ready=Backlog(count=5, oldest_seconds=61.5),
            claims=Backlog(count=2, oldest_seconds=3.0),
            overdue=Backlog(count=1, oldest_seconds=0.5),
            dispatched=Dispatched(jobs=9, median_seconds=0.4, most_seconds=2.5),
            observed_seconds=12.0,
            scraped_seconds=30.0,
        ),
        RegionHealth(region="eu-west-1", jobs={}),
    ),
    queues=(QueueHealth(queue="gpufleet-events", dead_letters=3),),
    webhooks=WebhookHealth(waiting=11, overdue_seconds=7.0, webhooks=4, disabled=1),
    loops=(
        beat("dispatcher", region="us-east-1", passed_at=NOW - timedelta(seconds=20)).health(NOW),
        beat("dispatcher", region="us-east-1", passed_at=NOW - timedelta(seconds=90), state=LoopState.STALLED).health(NOW),
        beat("sweeper", 2 * SILENT_AFTER.total_seconds(), error=None).health(NOW),
    ),
    unread={"scrapes": "S3: no answer"},
)


def test_prometheus_reads_every_figure():
    class Collector:
        def collect(self):
            yield from telling.families(figures_of(HEALTH))

    registry = CollectorRegistry()
    registry.register(Collector())
    text = generate_latest(registry).decode()
    samples = {(sample.name, *sorted(sample.labels.items())): sample.value for family in text_string_to_metric_families(text) for sample in family.samples}  # fmt: skip  # noqa: E501
    east = ("region", "us-east-1")
    assert samples[("fleet_ready_jobs", east)] == 5
    assert samples[("fleet_ready_oldest_seconds", east)] == 61.5
    assert samples[("fleet_ready_oldest_seconds", ("region", "eu-west-1"))] == 0
    assert samples[("fleet_jobs", east, ("state", "queued"))] == 7
    assert samples[("fleet_dead_letters", ("queue", "gpufleet-events"))] == 3
    assert samples[("fleet_loops", east, ("state", "stalled"), ("worker", "dispatcher"))] == 1
    assert samples[("fleet_loop_pass_age_seconds", east, ("worker", "dispatcher"))] == 20
    assert samples[("fleet_loops", ("region", "all"), ("state", "silent"), ("worker", "sweeper"))] == 1
    assert samples[("fleet_health_unread",)] == 1
    assert ("fleet_scrape_age_seconds", ("region", "eu-west-1")) not in samples
    assert {name for name, *_ in samples} == set(TEXTS)


def test_cloudwatch_is_told_the_same_without_states():
    data = telling.data(figures_of(HEALTH), NOW)
    told = {(one["MetricName"], *((each["Name"], each["Value"]) for each in one["Dimensions"])): one["Value"] for one in data}
    assert len(told) == len(data)
    assert told[("fleet_claim_oldest_seconds", ("region", "us-east-1"))] == 3.0
    assert told[("fleet_loops_unwell", ("region", "us-east-1"), ("worker", "dispatcher"))] == 1
    assert told[("fleet_loops_unwell", ("region", "all"), ("worker", "sweeper"))] == 1
    assert told[("fleet_dead_letters",)] == 3  # of all queues: the price of one metric
    assert not {name for name, *_ in told} & {"fleet_jobs", "fleet_loops", "fleet_loop_pass_age_seconds"}
    assert {one["Unit"] for one in data} == {"Seconds", "Count"}


def test_cloudwatch_is_told_no_zero_but_that_the_health_was_read():
    quiet = FleetHealth(
        at=NOW,
        regions=(RegionHealth(region="us-east-1", jobs={}, observed_seconds=12.0, scraped_seconds=30.0),),
        queues=(QueueHealth(queue="gpufleet-events", dead_letters=0),),
        webhooks=WebhookHealth(),
        loops=(beat("dispatcher", region="us-east-1", passed_at=NOW).health(NOW),),
    )
    told = {one["MetricName"]: one["Value"] for one in telling.data(figures_of(quiet), NOW)}
    assert told == {"fleet_observed_age_seconds": 12.0, "fleet_scrape_age_seconds": 30.0, "fleet_health_unread": 0}


def test_a_line_of_the_embedded_format_says_all_that_cloudwatch_needs():
    figures = figures_of(HEALTH)
    told = {}
    for document in telling.embedded(figures, NOW):
        line = json.loads(json.dumps(document))
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert line["_aws"]["Timestamp"] == NOW.timestamp() * 1000
        assert directive["Namespace"] == FLEET_NAMESPACE
        (names,) = directive["Dimensions"]
        assert all(isinstance(line[name], str) for name in names)
        for metric in directive["Metrics"]:
            assert isinstance(line[metric["Name"]], float)
            told[(metric["Name"], *((name, line[name]) for name in names))] = line[metric["Name"]]
    put = telling.data(figures, NOW)
    assert told == {(one["MetricName"], *((each["Name"], each["Value"]) for each in one["Dimensions"])): one["Value"] for one in put}


class At:
    moment = NOW

    def now(self) -> datetime:
        return self.moment


def test_how_a_loop_is():
    clock = At()
    passes = Passes(clock)
    assert state_of(passes, NOW + timedelta(days=1)) is LoopState.WELL  # it waits for its first work
    passes.begin()
    assert state_of(passes, NOW + STALLED_AFTER) is LoopState.WELL
    assert state_of(passes, NOW + STALLED_AFTER + timedelta(seconds=1)) is LoopState.STALLED
    passes.succeed()
    assert state_of(passes, NOW + timedelta(days=1)) is LoopState.WELL
    passes.begin()
    passes.fail(ValueError("no"))
    assert state_of(passes, NOW) is LoopState.FAILING


@pytest.mark.parametrize(("ago", "state"), [(EVERY, LoopState.FAILING), (SILENT_AFTER + timedelta(seconds=1), LoopState.SILENT)])
def test_a_process_of_which_nothing_is_heard(ago, state):
    assert beat("observer", ago.total_seconds(), state=LoopState.FAILING).health(NOW).state is state
