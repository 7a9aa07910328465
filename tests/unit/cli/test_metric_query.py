"""`gpufleet metrics query`."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

T = "2026-03-10T12:00:00Z"


def answer(*series, unit="percent"):
    found = [{"labels": labels, "points": [{"time": T, "value": value} for value in values]} for labels, values in series]
    return {"measure": "gpu_utilization", "aggregation": "avg", "unit": unit, "series": found}


def test_the_newest_minute_by_group(api, gpufleet, capsys):
    api.on(
        "GET",
        "/fleet/v1/metrics/instant",
        answer(({"region": "us-east-1", "node": "n1"}, [1234.56]), ({"region": "b", "node": "n2"}, [0.0])),
    )

    assert gpufleet("metrics", "query", "gpu_utilization", "--by", "region, node", "--how", "max", "--namespace", "gco-jobs") == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["REGION", "NODE", "PERCENT"], ["us-east-1", "n1", "1,234.6"], ["b", "n2", "0"]]
    asked = dict(api.requests[0].url.params)
    assert asked == {"measure": "gpu_utilization", "aggregation": "max", "by": "region,node", "namespace": "gco-jobs"}


def test_a_span_by_its_least_mean_most_and_last(api, gpufleet, capsys):
    api.on("GET", "/fleet/v1/metrics/range", answer(({"job_id": "j1"}, [None, 1.0, 5.0, None, 3.0])))

    assert gpufleet("metrics", "query", "gpu_utilization", "--by", "job_id", "--last", "2h", "--step", "300") == 0

    assert capsys.readouterr().out.splitlines()[1].split() == ["j1", "1", "3", "5", "3"]
    asked = api.requests[0].url.params
    span = datetime.fromisoformat(asked["end"]) - datetime.fromisoformat(asked["start"])
    assert (span.total_seconds(), asked["step"]) == (7200, "300")


def test_json_has_every_point(api, gpufleet, capsys):
    document = answer(({"region": "a"}, [1.0, None]))
    api.on("GET", "/fleet/v1/metrics/range", document)

    assert gpufleet("metrics", "query", "gpu_power", "--last", "1d", "--json") == 0

    assert json.loads(capsys.readouterr().out) == document


def test_nodes_of_two_regions_are_two_and_a_job_may_be_called_so(api, gpufleet, capsys):
    found = [({"region": region, "node": "node-0"}, [1.0]) for region in ("a", "b")]
    api.on("GET", "/fleet/v1/metrics/instant", answer(*found))

    assert gpufleet("metrics", "query", "gpu_power", "--by", "node") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["REGION", "NODE", "PERCENT"], ["a", "node-0", "1"], ["b", "node-0", "1"]]
    asked = {"device": "region,device", "node,region": "node,region", "job": "job_id", "namespace, job": "namespace,job_id"}
    for by, sent in asked.items():
        assert gpufleet("metrics", "query", "gpu_power", "--by", by) == 0
        assert api.requests[-1].url.params["by"] == sent


@pytest.mark.parametrize("last", ["0h", "-1h", "soon", "9d", "999999d"])
def test_a_span_that_none_may_be_is_told_with_its_rule(api, gpufleet, capsys, last):
    assert gpufleet("metrics", "query", "gpu_power", "--last", last) == 2

    assert f"--last: {last}: must be a number above 0 and one of s, m, h, d, such as 1h, and at most 8d" in capsys.readouterr().err
    assert api.requests == []


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--last", "1h", "--step", "90"], "--step: 90: must be whole minutes, such as 300"),
        (["--last", "1h", "--step", "3660"], "--step: 3660: must be at most --last, which is 3600 seconds"),
        (["--step", "60"], "--step: 60: must come with --last"),
    ],
    ids=["half-a-minute", "longer-than-the-span", "without-a-span"],
)
def test_a_step_that_none_may_be_is_told_with_its_rule(api, gpufleet, capsys, options, rule):
    assert gpufleet("metrics", "query", "gpu_power", *options) == 2

    assert rule in capsys.readouterr().err
    assert api.requests == []


def test_nothing_measured_and_a_span_that_is_none(api, gpufleet, capsys):
    api.on("GET", "/fleet/v1/metrics/instant", answer())

    assert gpufleet("metrics", "query", "gpu_power") == 0
    assert "nothing was measured" in capsys.readouterr().err
    assert gpufleet("metrics", "query", "gpu_power", "--last", "soon") == 2
