"""Whatever a client sends, it gets an answer, and the cluster goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cluster_sim.harness import APPLY, JOBS, JSON_PATCH, MERGE, PODS, STRATEGIC, Bench, job
from workers.local.cluster import Stream

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.text("ab/:.-~0 é", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "spec", "metadata", "uid", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
FULL = job(
    "train",
    parallelism=1,
    podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]},
    container={"resources": {"limits": {"cpu": "1"}}, "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]},
    pod={"tolerations": [{"operator": "Exists"}], "nodeSelector": {"a": "b"}, "schedulingGates": [{"name": "g"}]},
    annotations={"a": "b"},
    steer={"duration": "0.1", "exit-code": "3", "logs": "x"},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A full Job with something else in one or two places."""
    document = json.loads(json.dumps(FULL))
    for _ in range(draw(st.integers(1, 2))):
        *path, last = draw(st.sampled_from(places(document)[1:]))
        target = document
        for step in path:
            target = target[step]
        target[last] = draw(JSON)
    return document


@settings(max_examples=100, deadline=None)
@given(body=damaged(), strict=st.booleans())
def test_any_job(body, strict):
    bench = Bench()

    answer = bench.post(JOBS, body, **({"fieldValidation": "Strict"} if strict else {}))
    bench.run(3)

    assert answer.status in (201, 400, 409, 422)


@settings(max_examples=100, deadline=None)
@given(body=JSON | damaged(), media=st.sampled_from([MERGE, JSON_PATCH, STRATEGIC, APPLY]), path=st.sampled_from([JOBS, PODS]))
def test_any_patch(body, media, path):
    bench = Bench()
    bench.start("train", steer={"hang": "true"})
    name = bench.get(path).names[0]

    answer = bench.patch(f"{path}/{name}", body, media, fieldManager="any")
    bench.run(3)

    # A real server too calls it its own fault when what is applied has a field that it doesn't know.
    assert answer.status in (200, 400, 409, 422) or "field not declared" in answer.json["message"]


@settings(max_examples=100, deadline=None)
@given(
    operations=st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
                "path": st.sampled_from(
                    ["/spec", "/spec/suspend", "/metadata", "/metadata/labels", "/metadata/uid", "/spec/template/spec", "", "x"]
                ),
            },
            optional={"value": JSON, "from": st.sampled_from(["/spec", "/metadata/name"])},
        ),
        max_size=3,
    )
)
def test_any_json_patch(operations):
    bench = Bench()
    bench.start("train", steer={"hang": "true"})

    answer = bench.patch(f"{JOBS}/train", operations, JSON_PATCH)
    bench.run(3)

    assert answer.status in (200, 400, 409, 422)


@settings(max_examples=100, deadline=None)
@given(body=JSON, path=st.sampled_from([f"{JOBS}/train", JOBS, "/api/v1/namespaces/default"]))
def test_any_deletion(body, path):
    bench = Bench()
    bench.start("train", steer={"hang": "true"})

    answer = bench.delete(path, body)
    bench.run(3)

    assert answer.status in (200, 400, 409)


@pytest.mark.parametrize("name", ["limit", "resourceVersion", "timeoutSeconds"])
@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9" * 40, "²"])
def test_numbers_in_queries(bench, name, value):
    watch = "true" if name == "timeoutSeconds" else "false"
    answer = bench.cluster.request("GET", JOBS, {name: value, "watch": watch}, {}, None)

    assert not isinstance(answer, Stream)
    assert answer.status == 400


@pytest.mark.parametrize(
    ("name", "value"),
    [("tailLines", "x"), ("sinceTime", "yesterday"), ("sinceTime", "2027-01-15T08:00:00"), ("limitBytes", "-1")],
)
def test_parameters_of_logs(bench, name, value):
    bench.start("train")
    (pod,) = bench.pods_of("train")

    assert bench.get(f"{PODS}/{pod['metadata']['name']}/log", **{name: value}).refusal == (400, "BadRequest")


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "(", "a in (b", "=", "!"])
def test_selectors(bench, selector):
    assert bench.get(JOBS, labelSelector=selector).status == 400
    assert bench.get(JOBS, fieldSelector=selector).status == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{PODS}/train-0/eviction"),
        ("POST", JOBS),
        ("PUT", f"{JOBS}/train"),
        ("PATCH", f"{JOBS}/train"),
        ("DELETE", f"{JOBS}/train"),
    ],
)
def test_a_body_in_protobuf_is_refused_as_a_format_that_is_not_read(method, path):
    """`kubectl drain` evicts with such a body."""
    bench = Bench()
    bench.post(JOBS, FULL)
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    answer = bench.cluster.request(method, path, {}, headers, b"k8s\x00\n\x15\xff")

    assert not isinstance(answer, Stream)
    status = json.loads(answer.body)
    assert (answer.status, status["kind"], status["status"], status["reason"]) == (415, "Status", "Failure", "UnsupportedMediaType")
    assert "application/json" in status["message"]
    assert bench.get(f"{JOBS}/train").status == 200
