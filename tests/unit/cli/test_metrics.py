"""`gpufleet metrics`: tables of GPUs, and what their metrics cost."""

from __future__ import annotations

import json
from typing import Any

import pytest


def gpu(node: str, index: int, utilization: float | None, **fields: Any) -> dict[str, Any]:
    values = {"gpu_power": 100.0, "gpu_vram_used": 1024.0, "gpu_vram_total": 10240.0, "gpu_health": 1.0}
    if utilization is not None:
        values["gpu_utilization"] = utilization
    names = ("namespace", "pod", "container", "job_id", "execution", "job_name", "project", "partition", "profile", "uuid")
    one = {"region": "us-east-1", "node": node, "gpu": str(index), "device": "d", "vendor": "amd", "model": "MI300X", "divided": False}
    return dict.fromkeys(names) | one | {"values": values} | fields


TRAIN = {"namespace": "a", "pod": "p", "job_id": "01a22dbf", "job_name": "train", "project": "gold"}
REGION = {
    "region": "us-east-1",
    "scraped_at": "2026-01-01T00:00:00Z",
    "age_seconds": 12.3,
    "stale": False,
    "seconds": 0.1,
    "gpus": 4,
    "exporters_failed": 0,
    "exporters": [],
}
ANSWER = {
    "regions": [REGION],
    "gpus": [
        gpu("n1", 0, 90, **TRAIN),
        gpu("n1", 1, 70, **TRAIN),
        gpu("n2", 0, 0),
        gpu("n2", 1, None, namespace="b", pod="q", values={"gpu_health": 0.0}),
    ],
    "count": 4,
    "partial": False,
}


@pytest.fixture
def top(api, gpufleet, capsys):
    def run(*arguments: str, answer: dict[str, Any] = ANSWER) -> tuple[list[str], str]:
        api.on("GET", "/fleet/v1/metrics/gpus", answer)
        assert gpufleet("metrics", "top", *arguments) == 0
        shown = capsys.readouterr()
        return [" ".join(line.split()) for line in shown.out.splitlines()], shown.err

    return run


def test_each_gpu_has_a_row_with_who_holds_it(top):
    rows, told = top()

    assert rows[1] == "us-east-1 n1 0 MI300X 90% 1.0/10 GiB 100 W - ok a 01a22dbf p"
    assert rows[3] == "us-east-1 n2 0 MI300X 0% 1.0/10 GiB 100 W - ok - - -"
    assert rows[4] == "us-east-1 n2 1 MI300X - - - - sick b - q"
    assert "us-east-1: 4 GPUs, read 12 s ago" in told


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        (
            "job",
            [
                "01a22dbf train 2 2 80% 90% 2.0/20 GiB 200 W 0",
                "(not the fleet's) - 1 1 - - - - 1",
                "(idle) - 1 0 0% 0% 1.0/10 GiB 100 W 0",
            ],
        ),
        ("node", ["us-east-1/n1 2 2 80% 90% 2.0/20 GiB 200 W 0", "us-east-1/n2 2 1 0% 0% 1.0/10 GiB 100 W 1"]),
        ("namespace", ["a 2 2 80% 90% 2.0/20 GiB 200 W 0", "b 1 1 - - - - 1", "(idle) 1 0 0% 0% 1.0/10 GiB 100 W 0"]),
        ("project", ["gold 2 2 80% 90% 2.0/20 GiB 200 W 0", "- 1 1 - - - - 1", "(idle) 1 0 0% 0% 1.0/10 GiB 100 W 0"]),
        ("region", ["us-east-1 4 3 53% 90% 3.0/30 GiB 300 W 1"]),
    ],
)
def test_groups_have_what_their_gpus_have_together(top, by, rows):
    shown, _ = top("--by", by)

    assert shown[1:] == rows


def test_a_divided_gpu_counts_as_its_partitions(top):
    parts = [gpu("n1", 0, 50, partition=str(part), profile="1g.10gb", values={"gpu_utilization": 50.0}, **TRAIN) for part in (7, 8)]
    whole = gpu("n1", 0, None, divided=True, values={"gpu_power": 300.0})

    rows, _ = top("--by", "node", answer=ANSWER | {"gpus": [whole, *parts]})
    jobs, _ = top("--by", "job", answer=ANSWER | {"gpus": [whole, *parts]})

    assert rows[1] == "us-east-1/n1 2 2 50% 50% - 300 W -"
    assert [row.partition(" ")[0] for row in jobs[1:]] == ["01a22dbf"]


def test_what_is_old_or_failed_or_cut_off_is_said(top):
    failed = [{"namespace": "s", "pod": "e", "node": "n3", "gpus": 0, "seconds": 10.0, "broken_lines": 0, "error": "no answer"}]
    region = REGION | {"stale": True, "exporters_failed": 1, "exporters": failed}

    _, told = top(answer=ANSWER | {"regions": [region], "partial": True, "count": 9})

    assert "nothing is known of the present; 1 exporters failed" in told
    assert "n3 (s/e): no answer" in told
    assert "4 of 9 GPUs" in told


def test_no_scrape_at_all_names_the_worker(top):
    rows, told = top(answer={"regions": [], "gpus": [], "count": 0, "partial": False})

    assert rows == []
    assert "python -m workers.metrics" in told


def test_json_is_what_the_api_said_and_filters_are_sent(api, top, gpufleet, capsys):
    api.on("GET", "/fleet/v1/metrics/gpus", ANSWER)
    assert gpufleet("metrics", "top", "--json", "--namespace", "a", "--job", "j", "--node", "n1", "--region", "us-east-1") == 0

    assert json.loads(capsys.readouterr().out) == ANSWER
    assert dict(api.requests[-1].url.params) == {"namespace": "a", "job_id": "j", "node": "n1", "region": "us-east-1", "limit": "5000"}


def test_a_watch_asks_again_until_it_is_interrupted(api, gpufleet, capsys, monkeypatch):
    api.on("GET", "/fleet/v1/metrics/gpus", ANSWER)
    pauses = iter([None, None])

    def pause(_: float) -> None:
        if next(pauses, "end") == "end":
            raise KeyboardInterrupt

    monkeypatch.setattr("workers.cli.metrics.time.sleep", pause)

    assert gpufleet("metrics", "top", "--watch") == 130
    assert capsys.readouterr().out.count("MODEL") == 3
    assert len(api.requests) == 3


def test_a_watch_is_no_document(api, gpufleet, capsys):
    assert gpufleet("metrics", "top", "--watch", "--json") == 2

    assert "--watch: must be without --json" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert api.requests == []


def test_a_plan_says_metrics_and_money(api, gpufleet, capsys):
    answer = {
        "regions": ["us-east-1"],
        "gpus": 12,
        "rollups": [{"labels": ["region", "node"], "groups": 2, "metrics": 26}, {"labels": [], "groups": 1, "metrics": 3}],
        "measures": ["gpu_power"],
        "interval_seconds": 60.0,
        "metrics": 29,
        "metrics_usd": "8.70",
        "requests": 43800,
        "requests_usd": "0.44",
        "total_usd": "9.14",
        "prices_of": "2025-11-01",
        "uncertain": ["prices are those of us-east-1"],
    }
    api.on("GET", "/fleet/v1/metrics/plan", answer)

    assert gpufleet("metrics", "plan", "--rollups", "region+node") == 0

    told = capsys.readouterr()
    shown = told.out
    assert "prices are those of us-east-1" in told.err
    assert "region + node" in shown
    assert "29: 8.70 USD a month" in shown
    assert "9.14 USD a month" in shown
    assert dict(api.requests[-1].url.params) == {"rollups": "region+node"}
