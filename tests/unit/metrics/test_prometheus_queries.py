"""What is asked of Prometheus, and what its answers may be."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qs

import httpx
import pytest
from structlog.testing import capture_logs

from shared.errors import UnavailableError
from shared.metrics.prometheus_queries import PrometheusWindows, evaluated_at, promql
from shared.metrics.queries import Query
from shared.metrics.series import Label
from shared.metrics.steps import Slots
from shared.metrics.windows import Statistic, Wanted, WindowQueries
from tests.unit.metrics.history import UTIL
from tests.unit.metrics.test_queries import NOON, At, minute

ONE = Query(measure=UTIL, by=(Label.NODE,))


def answering(*answers) -> WindowQueries:
    """A Prometheus that answers every request with the next of some answers, and then with the last."""
    left = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer(request) if callable(answer) else answer)

    client = httpx.AsyncClient(transport=httpx.MockTransport(handle), base_url="http://prometheus")
    return WindowQueries(PrometheusWindows(client), At(NOON + timedelta(hours=1)))


def matrix(*series, **more):
    result = [{"metric": {"region": "us-east-1", "node": node}, "values": values} for node, values in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}} | more


def test_every_value_is_quoted():
    wanted = Wanted(
        name=UTIL,
        statistic=Statistic.SUM,
        by=(Label.REGION, Label.NODE),
        filters={Label.JOB: 'a"} or vector(1) or {x="\\', Label.NODE: "né\U0001f600"},
    )
    assert promql(wanted, 300) == (
        'sum by (region, node) (sum_over_time(gpu_utilization{job_id="a\\"} or vector(1) or {x=\\"\\\\", node="né\U0001f600", '
        'region!=""}[300s] offset 1ms))'
    )


def test_windows_end_at_whole_minutes_where_the_step_is_of_them():
    by_minute = Slots(start=minute(1, 40), end=minute(4), step=60)
    assert evaluated_at(by_minute) == [minute(number, 0) for number in (1, 2, 3)]
    fine = Slots(start=minute(1, 40), end=minute(2, 30), step=25)
    assert evaluated_at(fine) == [minute(1, 40), minute(2, 5), minute(2, 30)]


async def test_a_range_is_posted():
    seen = []

    def look(request):
        seen.append((request.method, request.url.path, {name: found[0] for name, found in parse_qs(request.content.decode()).items()}))
        return matrix()

    await answering(look).range(ONE, minute(1, 40), minute(4))
    begin = int(minute(1, 0).timestamp())
    assert [(method, path) for method, path, _ in seen] == [("POST", "/api/v1/query_range")] * 2
    form = seen[0][2]
    assert (form["start"], form["end"], form["step"], form["timeout"]) == (str(begin), str(begin + 120), "60", "30s")


async def test_samples_count_at_their_slots_only_and_only_numbers_do():
    at = int(NOON.timestamp())
    sums = matrix(("n1", [[at, "6"], [at + 30, "9"], [at + 60.5, "9"], [at + 120, "NaN"], [at + 180, "+Inf"], [at + 240, "8"]]), ("n2", []))
    counts = matrix(("n1", [[at + step, "2"] for step in range(0, 300, 60)]))
    (series,) = await answering(sums, counts).range(ONE, NOON, minute(4))
    assert [point.value for point in series.points] == [3.0, None, None, None, 4.0]


async def test_one_slot_is_an_instant_query():
    vector = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"region": "r", "node": "n"}, "value": [int(NOON.timestamp()), "4"]}]}}  # fmt: skip  # noqa: E501
    (series,) = await answering(vector).range(ONE, NOON, NOON + timedelta(seconds=30))
    assert [point.value for point in series.points] == [1.0]


async def test_warnings_are_told():
    with capture_logs() as logs:
        await answering(matrix(warnings=["a store is away"], infos=["by the way"])).range(ONE, NOON, minute(4))
    assert {entry["warning"] for entry in logs} == {"a store is away", "by the way"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            httpx.Response(422, json={"status": "error", "errorType": "execution", "error": "too many samples"}),
            "execution: too many samples",
        ),
        (httpx.Response(503, json={"status": "error", "errorType": "unavailable", "error": "starting"}), "unavailable: starting"),
        (httpx.Response(502, text="<html>bad gateway: secret</html>"), "answers 502 and is no Prometheus API"),
        (httpx.Response(200, text="hello"), "answers 200 and is no Prometheus API"),
        (httpx.Response(200, json=[1]), "answers 200 and is no Prometheus API"),
        (httpx.Response(200, json={"status": "success", "data": None}), "its answer is no matrix"),
        (httpx.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": []}}), "its answer is no matrix"),
        (httpx.Response(200, json=matrix(("n", [[1]]))), "something else than series"),
        (httpx.Response(200, json=matrix(("n", [["x", "1"]]))), "something else than series"),
        (httpx.ConnectTimeout("slow"), "no answer within 30 s"),
        (httpx.ConnectError("refused"), "refused"),
        (httpx.ReadError(""), "ReadError"),
    ],
)
async def test_what_is_no_answer(answer, told):
    with pytest.raises(UnavailableError) as refusal:
        await answering(answer).range(ONE, NOON, minute(4))
    assert told in str(refusal.value)
    assert "secret" not in str(refusal.value)


async def test_when_to_come_again():
    with pytest.raises(UnavailableError) as refusal:
        await answering(httpx.Response(429, headers={"Retry-After": "7"}, text="slow down")).range(ONE, NOON, minute(4))
    assert refusal.value.retry_after == 7.0


async def test_an_answer_that_has_no_end():
    async def flood():
        while True:
            yield b"x" * 1024 * 1024

    with pytest.raises(UnavailableError, match="larger than"):
        await answering(httpx.Response(200, content=flood())).range(ONE, NOON, minute(4))
