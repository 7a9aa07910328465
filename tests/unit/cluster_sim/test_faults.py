import pytest
from pydantic import ValidationError

from tests.unit.cluster_sim.harness import CONFIG_MAPS, config_map, events
from workers.local.cluster import Fault, Faults, Response, Stream
from workers.local.cluster.faults import answer_with
from workers.local.cluster.objects import to_json

BODY = to_json(config_map("x"))


def send(bench, fault: Fault, method: str = "POST", body: bytes | None = BODY, **query: str):
    return answer_with(fault, bench.cluster, method, CONFIG_MAPS, query, {}, body)


def test_a_fault_meets_the_requests_that_match_and_no_more():
    faults = Faults()
    faults.add(Fault(method="POST", path="/jobs$", times=2, after=1))

    met = [faults.take("POST", "/apis/batch/v1/namespaces/a/jobs", {}) is not None for _ in range(5)]

    assert met == [False, True, True, False, False]
    assert faults.waiting == []


def test_other_requests_pass():
    faults = Faults()
    faults.add(Fault(method="POST", path="/jobs$"))
    faults.add(Fault(action="watch_gone"))

    assert faults.take("GET", "/apis/batch/v1/jobs", {}) is None
    assert faults.take("GET", "/apis/batch/v1/jobs", {"watch": "true"}).action == "watch_gone"
    faults.clear()
    assert faults.take("POST", "/jobs", {}) is None


def test_an_answer_that_is_not_applied(bench):
    answer = send(bench, Fault(status=429, retry_after=3))

    assert isinstance(answer, Response)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    assert bench.get(CONFIG_MAPS).names == []


def test_an_answer_that_lies_about_what_was_applied(bench):
    answer = send(bench, Fault(action="apply_then_answer", status=504))

    assert answer.status == 504
    assert bench.get(CONFIG_MAPS).names == ["x"]


@pytest.mark.parametrize(("action", "names"), [("drop", []), ("apply_then_drop", ["x"])])
def test_a_connection_that_breaks(bench, action, names):
    assert send(bench, Fault(action=action)) is None
    assert bench.get(CONFIG_MAPS).names == names


def test_a_watch_that_is_gone(bench):
    stream = send(bench, Fault(action="watch_gone"), "GET", None, watch="true")

    assert isinstance(stream, Stream)
    assert stream.closed
    assert events(stream)[0]["object"]["code"] == 410


def test_a_watch_that_is_empty(bench):
    stream = send(bench, Fault(action="watch_empty"), "GET", None, watch="true")

    assert stream.closed
    assert stream.take() == []


def test_an_applied_watch_leaves_no_stream_behind(bench):
    assert send(bench, Fault(action="apply_then_drop"), "GET", None, watch="true") is None


def test_a_delayed_request_is_right_in_the_end(bench):
    assert send(bench, Fault(action="delay", delay=1.0)).status == 201


def test_an_unknown_fault_is_refused():
    with pytest.raises(ValidationError):
        Fault(action="explode")


def test_a_stream_that_ends_early_gives_so_many_lines(bench):
    bench.post(CONFIG_MAPS, config_map("x"))
    stream = send(bench, Fault(action="stream_ends", lines=2), "GET", None, watch="true")
    bench.post(CONFIG_MAPS, config_map("y"))
    bench.post(CONFIG_MAPS, config_map("z"))

    assert (stream.closed, stream.broken) == (True, False)
    assert [event["object"]["metadata"]["name"] for event in events(stream)] == ["x", "y"]


def test_a_stream_that_breaks_is_cut_in_the_midst_of_a_line(bench):
    stream = send(bench, Fault(action="stream_breaks", lines=1), "GET", None, watch="true")
    bench.post(CONFIG_MAPS, config_map("x"))
    assert not stream.closed
    bench.post(CONFIG_MAPS, config_map("y"))
    bench.post(CONFIG_MAPS, config_map("z"))

    whole, cut = stream.take()

    assert (stream.closed, stream.broken) == (True, True)
    assert whole.endswith(b"\n")
    assert not cut.endswith(b"\n")
