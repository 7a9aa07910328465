"""Questions about GPUs over time: through the API, answered by the emulator's CloudWatch, with the same answers as from the samples."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest

from shared.aws import connect
from shared.clock import SystemClock
from shared.identity.callers import Caller, Right
from shared.ids import RandomIds
from shared.metrics.cloudwatch_queries import cloudwatch_queries
from shared.metrics.queries import Aggregation, Query
from shared.metrics.series import Label
from shared.metrics.source import MetricSource
from shared.metrics.windows import WindowQueries
from tests.integration.api.conftest import serving, serving_caller
from tests.unit.metrics.history import BY_DEVICE, DEFAULT_ROLLUPS, UTIL, Memory, Sample, put, story
from workers.api.core import Core, build

RANGE, INSTANT = "/fleet/v1/metrics/range", "/fleet/v1/metrics/instant"
MINUTES = 20


@pytest.fixture
def begin() -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=MINUTES)


@pytest.fixture
def names() -> dict[str, str]:
    """Regions that no other test writes to: CloudWatch is one for all."""
    nonce = RandomIds().nonce()
    return {"us-east-1": f"east-{nonce}", "us-west-2": f"west-{nonce}"}


@pytest.fixture
async def samples(aws_environment, begin, names) -> list[Sample]:
    found = [
        Sample(time=one.time, labels={**one.labels, Label.REGION: names[one.labels[Label.REGION]]}, values=one.values)
        for one in story(begin, MINUTES)
    ]
    async with connect("us-east-1", "cloudwatch") as aws:
        await put(aws.cloudwatch, found, (*DEFAULT_ROLLUPS, BY_DEVICE))
    return found


@pytest.fixture
async def core(aws, shared_settings, names) -> Core:
    settings = shared_settings.model_copy(update={"regions": tuple(names.values())})
    source = MetricSource(settings, aws.elsewhere("cloudwatch", "us-east-1"), SystemClock())
    return replace(await build(shared_settings, aws), metrics=source)


@pytest.fixture
async def client(core) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(core) as found:
        yield found


async def test_cloudwatch_answers_as_the_samples_do(aws_environment, samples, begin, names):
    rollups = (*DEFAULT_ROLLUPS, BY_DEVICE)
    remembered = WindowQueries(Memory(samples), SystemClock())
    async with connect("us-east-1", "cloudwatch") as aws:
        queries = cloudwatch_queries(aws.cloudwatch, regions=tuple(names.values()), rollups=rollups, clock=SystemClock())
        for aggregation in Aggregation:
            for by in ((), (Label.REGION,), (Label.REGION, Label.NODE)):
                for filters in ({}, {Label.REGION: names["us-east-1"]}):
                    if Label.NODE in by and not filters:
                        continue  # other tests have nodes of their own
                    query = Query(measure=UTIL, aggregation=aggregation, by=by, filters=filters)
                    found = await queries.range(query, begin, begin + timedelta(minutes=MINUTES), 300)
                    wanted = await remembered.range(query, begin, begin + timedelta(minutes=MINUTES), 300)
                    assert found
                    assert [one.labels for one in found] == [one.labels for one in wanted]
                    for one, other in zip(found, wanted, strict=True):
                        assert [value for _, value in one.points] == [v if v is None else pytest.approx(v) for _, v in other.points]


async def test_a_range_through_the_api(client, samples, begin, names):
    asked = {
        "measure": "gpu_utilization",
        "aggregation": "max",
        "by": "node",
        "region": names["us-east-1"],
        "start": begin.isoformat(),
        "end": (begin + timedelta(minutes=2)).isoformat(),
    }
    answer = await client.get(RANGE, params=asked)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["measure"], body["aggregation"], body["unit"]) == ("gpu_utilization", "max", "percent")
    assert {one["labels"]["node"]: [point["value"] for point in one["points"]] for one in body["series"]} == {
        "n1": [None, 90.0, 89.5],
        "n2": [None, 55.5, 55.5],
    }
    assert body["series"][0]["points"][0]["time"] == begin.isoformat().replace("+00:00", "Z")


async def test_an_instant_through_the_api(client, samples, begin, names):
    answer = await client.get(INSTANT, params={"measure": "gpu_utilization", "aggregation": "count", "by": "region"})
    body = answer.json()
    assert body["unit"] == "devices"
    assert {one["labels"]["region"]: one["points"][0]["value"] for one in body["series"]} == {
        names["us-east-1"]: 3.0,
        names["us-west-2"]: 1.0,
    }


async def test_an_instant_has_no_job_that_has_ended(client, samples, begin, names):
    """It was last seen in minute 9; the scrape of minute 10 failed."""
    for minute, points in ((10, [(10, 55.5)]), (11, [(10, 55.5)]), (12, [])):
        asked = {"measure": "gpu_utilization", "by": "job_id", "job_id": "j2", "region": names["us-east-1"]}
        answer = await client.get(INSTANT, params=asked | {"at": (begin + timedelta(minutes=minute, seconds=30)).isoformat()})
        found = [point for one in answer.json()["series"] for point in one["points"]]
        assert [(datetime.fromisoformat(one["time"]), one["value"]) for one in found] == [
            (begin + timedelta(minutes=at), value) for at, value in points
        ]


async def test_all_that_is_wrong_is_told(client):
    answer = await client.get(RANGE, params={"measure": "power", "by": "rack"})
    assert answer.status_code == 422
    answer = await client.get(RANGE, params={"measure": "gpu_power", "by": "region,rack"})
    assert answer.status_code == 422
    assert "/by/1" in answer.text
    answer = await client.get(RANGE, params={"measure": "gpu_power", "start": "now", "end": "2020-01-01", "step": "0"})
    assert answer.status_code == 422
    assert all(word in answer.text for word in ("/start", "/end", "/step"))
    answer = await client.get(INSTANT, params={"measure": "gpu_power", "by": "vendor"})
    assert answer.status_code == 422
    assert "rollups" in answer.text


async def test_who_is_bound_to_a_namespace_sees_only_its_devices(core, samples, names):
    bound = Caller(name="key:bound", rights=frozenset({Right.READ}), namespaces=frozenset({"gco-jobs"}))

    asked = {"measure": "gpu_utilization", "aggregation": "count", "region": names["us-east-1"]}
    async with serving_caller(core, bound) as client:
        refused = await client.get(INSTANT, params=asked)
        other = await client.get(INSTANT, params=asked | {"namespace": "other"})
        own = await client.get(INSTANT, params=asked | {"namespace": "gco-jobs"})
    assert (refused.status_code, other.status_code) == (403, 403)
    assert [one["points"][0]["value"] for one in own.json()["series"]] == [2.0]


async def test_where_nobody_keeps_metrics(aws, shared_settings):
    core = await build(shared_settings.model_copy(update={"metrics_rollups": ()}), aws)
    async with serving(core) as client:
        answer = await client.get(INSTANT, params={"measure": "gpu_utilization"})
    assert answer.status_code == 503
    assert "GPUFLEET_PROMETHEUS_URL" in answer.text


async def test_a_prometheus_that_is_named_is_asked_with_its_token(aws, shared_settings, tmp_path, monkeypatch):
    asked = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append((str(request.url), request.headers.get("authorization")))
        return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": []}})

    real = httpx.AsyncClient
    with_transport = partial(real, transport=httpx.MockTransport(handle))
    monkeypatch.setattr("shared.metrics.prometheus_queries.httpx.AsyncClient", with_transport)
    token = tmp_path / "token"
    token.write_text("secret\n")
    settings = shared_settings.model_copy(update={"prometheus_url": "http://prometheus:9090/base", "prometheus_token_file": token})
    core = await build(settings, aws)
    async with core.metrics.queries() as queries:
        assert await queries.instant(Query(measure=UTIL)) == []
    assert asked == [("http://prometheus:9090/base/api/v1/query_range", "Bearer secret")] * 3
    monkeypatch.undo()
    token.unlink()
    async with serving(core) as client:
        answer = await client.get(INSTANT, params={"measure": "gpu_utilization"})
    assert answer.status_code == 503
