"""The commands of costs."""

import json
from pathlib import Path

import pytest

from workers.cli.cost_plots import bars

COSTS = "/fleet/v1/costs"
KEY = "reports/region=us-east-1/date=2026-05-17/allocation-20260517T100000Z-20260517T110000Z.parquet"
SUMMARY = {
    "allocation_key": KEY,
    "total_cost": "36.000000000",
    "jobs_cost": "9.5",
    "other_cost": "0",
    "idle_cost": "26.5",
    "window_start": "2026-05-17T10:00:00Z",
    "window_end": "2026-05-17T11:00:00Z",
    "complete": False,
    "gaps": [
        {"start": "2026-05-17T10:00:00Z", "end": "2026-05-17T10:10:00Z"},
        {"start": "2026-05-17T10:30:00Z", "end": "2026-05-17T10:40:00Z"},
    ],
    "complete_to": "2026-05-17T10:30:00Z",
    "prices": [{"source": "table", "as_of": "2026-07-28"}],
    "opencost": None,
}


def total(key: str, cost: str, *, idle: bool = False, unpriced: str = "0") -> dict:
    names = ("cpu_core_hours", "ram_gib_hours", "gpu_hours", "cpu_cost", "ram_cost")
    return {
        "key": key, "idle": idle, "total_cost": cost, "gpu_cost": cost, "unpriced_gpu_hours": unpriced, "unpriced_core_hours": "0",
        **dict.fromkeys(names, "0"),
    }  # fmt: skip


def answer(*totals: dict, **more) -> dict:
    return {
        "region": "us-east-1", "start": "2026-05-17T10:00:00Z", "end": "2026-05-17T11:00:00Z", "by": "namespace", "label": None,
        "count": len(totals), "total_cost": "36.000000000", "totals": list(totals), "reports": 1, "incomplete": 0, "missing": [],
        **more,
    }  # fmt: skip


def test_a_report_is_shown_as_a_table_with_a_bar_for_each_row(api, gpufleet, capsys):
    api.on(
        "GET", f"{COSTS}/reports/latest", answer(total("__idle__", "26.5", idle=True), total("ml", "9.5", unpriced="1"), summary=SUMMARY)
    )

    assert gpufleet("costs", "show") == 0

    told = capsys.readouterr()
    assert [line.split()[:2] for line in told.out.splitlines()[1:]] == [["__idle__", "26.50"], ["ml", "9.50*"]]
    idle, ml = (line.count("█") for line in told.out.splitlines()[1:])
    assert idle == 30
    assert 9 <= ml <= 11
    assert "36.00 USD" in told.err
    assert "table of 2026-07-28" in told.err


def test_jobs_have_their_name_beside_their_id(api, gpufleet, capsys):
    rows = [total("__idle__", "26.5", idle=True), total("0198c0de-0000-7000-8000-00000000abcd", "9.5") | {"name": "train"}]
    api.on("GET", f"{COSTS}/reports/latest", answer(*rows))

    assert gpufleet("costs", "show", "--by", "job") == 0

    head, idle, job = capsys.readouterr().out.splitlines()
    assert (head.split()[:3], idle.split()[:3]) == (["JOB", "NAME", "USD"], ["__idle__", "-", "26.50"])
    assert job.split()[:3] == ["0198c0de-0000-7000-8000-00000000abcd", "train", "9.50"]
    assert bars(rows) == ["__idle__", "train 00000000abcd"]


@pytest.mark.parametrize(
    ("by", "asked"),
    [("job", {"by": "job"}), ("instance-type", {"by": "instance_type"}), ("label:team", {"by": "label", "label": "team"})],
)
def test_what_it_is_told_by_is_passed_on(api, gpufleet, by, asked):
    api.on("GET", f"{COSTS}/reports/latest", answer())

    assert gpufleet("costs", "show", "--by", by) == 0

    assert dict(api.requests[0].url.params) == asked | {"limit": "100"}


def test_a_key_is_asked_for_as_a_path(api, gpufleet):
    api.on("GET", f"{COSTS}/reports/{KEY}", answer())

    assert gpufleet("costs", "show", KEY) == 0


def test_a_time_is_asked_for_with_its_zone(api, gpufleet, capsys):
    api.on("GET", COSTS, answer(total_cost="0", missing=[{"start": "2026-05-17T10:00:00Z", "end": "2026-05-17T10:30:00Z"}], incomplete=1))

    assert gpufleet("costs", "show", "--from", "2026-05-17T10:00", "--to", "2026-05-17T13:00+02:00") == 0

    asked = api.requests[0].url.params
    assert (asked["from"], asked["to"]) == ("2026-05-17T10:00:00+00:00", "2026-05-17T13:00:00+02:00")
    told = capsys.readouterr().err
    assert "no usage is known" in told
    assert "0.00" not in told
    assert "no reports of 2026-05-17 10:00:00 UTC to 2026-05-17 10:30:00 UTC" in told
    assert "1 of 1 reports" in told


NONE = {"detail": "Cost report 'us-east-1, a to b' not found (the next is written after c)", "request_id": "0" * 32}


def test_of_a_time_without_a_report_no_sum_is_told(api, gpufleet, capsys, tmp_path: Path):
    api.on("GET", COSTS, NONE, status=404)
    times = ["--from", "2026-05-17T10:00Z", "--to", "2026-05-17T13:00+02:00"]

    assert gpufleet("costs", "show", *times, "--region", "us-east-1", "--png", str(tmp_path / "costs.png")) == 3

    told = capsys.readouterr()
    assert NONE["detail"] in told.err
    assert "`gpufleet costs report --from 2026-05-17T10:00:00Z --to 2026-05-17T11:00:00Z --region us-east-1` writes one now" in told.err
    assert "0.00" not in told.out + told.err
    assert not (tmp_path / "costs.png").exists()
    assert gpufleet("costs", "show", *times, "--json") == 3
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == 3


def test_what_was_idle_of_a_kind_of_nodes_and_what_has_no_price_is_marked(api, gpufleet, capsys):
    rows = [
        total("g5.12xlarge", "5", idle=True),
        total("g5.12xlarge", "2"),
        total("new.1", "0", unpriced="1"),
        total("__idle__", "0", idle=True),
    ]
    api.on("GET", f"{COSTS}/reports/latest", answer(*rows))

    assert gpufleet("costs", "show", "--by", "instance-type") == 0

    names = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert names == ["g5.12xlarge (idle)", "g5.12xlarge", "new.1", "__idle__"]
    assert bars(rows) == ["g5.12xlarge (idle)", "g5.12xlarge", "new.1*", "__idle__"]
    assert bars([total("a", "1")] * 40 + [total("b", "0", unpriced="1")])[-1] == "1 more*"


@pytest.mark.parametrize(
    ("asked_for", "told"), [([{}], "no reports of the schedule yet; `gpufleet costs list --adhoc`"), ([], "no reports yet")]
)
def test_where_the_schedule_has_none_those_that_were_asked_for_are_told_of(api, gpufleet, capsys, asked_for, told):
    api.on("GET", f"{COSTS}/reports", {"reports": []}, {"reports": asked_for})

    assert gpufleet("costs", "list") == 0

    said = capsys.readouterr()
    assert told in said.out + said.err


def test_a_report_of_what_nobody_knows_is_not_found(api, gpufleet, capsys):
    api.on("POST", f"{COSTS}/reports", {"detail": "Usage of 'x' not found"}, status=404)

    assert gpufleet("costs", "report") == 3

    assert "Usage of 'x' not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("times", "asked"),
    [
        (["--from", "2026-05-01T10:00Z", "--to", "2026-05-17T11:00:00.5Z"], "--from 2026-05-10T11:00:00Z --to 2026-05-17T11:00:00Z"),
        (["--from", "2026-05-17T10:58Z", "--to", "2026-05-17T11:00Z"], "--from 2026-05-17T10:55:00Z --to 2026-05-17T11:00:00Z"),
        (["--to", "2026-05-17T11:00Z"], "--from 2026-05-16T11:00:00Z --to 2026-05-17T11:00:00Z"),
    ],
    ids=["longer-than-a-report", "shorter-than-a-report", "a-day-before-the-end"],
)
def test_the_report_that_is_proposed_is_one_that_may_be_written(api, gpufleet, capsys, times, asked):
    api.on("GET", COSTS, NONE, status=404)

    assert gpufleet("costs", "show", *times) == 3

    assert f"`gpufleet costs report {asked}` writes one now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (["--from", "1m"], "--from: 1m: must be from 5 minutes to 7 days before the end"),
        (["--from", "10d"], "--from: 10d: must be from 5 minutes to 7 days before the end"),
        (["--from", "10m", "--to", "20m"], "--to: 20m: must be after --from"),
    ],
    ids=["short", "long", "backwards"],
)
def test_a_time_that_no_report_may_cover_is_told_by_the_option_that_says_it(api, gpufleet, capsys, times, told):
    assert gpufleet("costs", "report", *times) == 2

    assert told in capsys.readouterr().err
    assert api.requests == []


def test_what_the_api_refuses_of_a_report_is_a_bad_option(api, gpufleet, capsys):
    problems = [{"pointer": "/region", "value": "mars-1", "rule": "must be a region of the fleet: us-east-1"}]
    api.on("POST", f"{COSTS}/reports", {"detail": "1 problem", "problems": problems}, status=422)

    assert gpufleet("costs", "report", "--region", "mars-1") == 2

    assert "/region: mars-1: must be a region of the fleet" in capsys.readouterr().err


def test_a_report_is_asked_for(api, gpufleet, capsys):
    api.on("POST", f"{COSTS}/reports", SUMMARY, status=201)

    assert gpufleet("costs", "report", "--hours", "3", "--region", "eu-west-1") == 0

    assert api.bodies() == [{"region": "eu-west-1", "hours": 3}]
    told = capsys.readouterr()
    assert told.out == f"{KEY}\n"
    known = "2026-05-17 10:10:00 UTC to 2026-05-17 10:30:00 UTC, 2026-05-17 10:40:00 UTC to 2026-05-17 11:00:00 UTC only"
    assert f"usage is known of {known}" in told.err


def test_reports_are_listed(api, gpufleet, capsys):
    entry = {"key": KEY, "window_start": "2026-05-17T10:00:00Z", "window_end": "2026-05-17T11:00:00Z", "last_modified": None}
    api.on("GET", f"{COSTS}/reports", {"reports": [entry]})

    assert gpufleet("costs", "list", "--adhoc") == 0

    assert KEY in capsys.readouterr().out
    assert api.requests[0].url.params["adhoc"] == "true"


@pytest.mark.parametrize("command", [["show"], ["list"], ["report"]])
def test_json_is_the_answer_and_nothing_else(api, gpufleet, capsys, command):
    api.on("GET", f"{COSTS}/reports/latest", answer(total("ml", "1")))
    api.on("GET", f"{COSTS}/reports", {"reports": []})
    api.on("POST", f"{COSTS}/reports", SUMMARY)

    assert gpufleet("costs", *command, "--json") == 0

    assert isinstance(json.loads(capsys.readouterr().out), dict)


@pytest.mark.parametrize(
    "wrong",
    [
        ["show", "--by", "colour"],
        ["show", "--by", "job:x"],
        ["show", "--by", "job:"],
        ["show", "--by", "label:"],
        ["show", "latest", "--from", "1h"],
        ["show", KEY, "--region", "us-east-1"],
        ["show", "--png", "costs.txt"],
        ["show", "--png", "costs"],
        ["show", "--from", "999999d"],
        ["show", "--from", "yesterday"],
        ["report", "--hours", "2", "--from", "1h"],
        ["report", "--to", "1h"],
        ["report", "--hours", "169"],
    ],
)
def test_what_is_wrong_is_told_before_anything_is_asked(api, gpufleet, wrong):
    assert gpufleet("costs", *wrong) == 2
    assert api.requests == []


def test_what_can_be_no_key_is_not_asked_for(api, gpufleet):
    assert gpufleet("costs", "show", "reports/../keys") == 3
    assert api.requests == []


def test_a_picture_is_drawn(api, gpufleet, tmp_path: Path):
    rows = [total(f"ns-{number} $x_1 \u65e5", "1.5") for number in range(50)]
    api.on("GET", f"{COSTS}/reports/latest", answer(*rows))

    assert gpufleet("costs", "show", "--png", str(tmp_path / "costs.png")) == 0

    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_where_it_can_t_be_drawn_is_told(api, gpufleet, tmp_path: Path, capsys):
    api.on("GET", f"{COSTS}/reports/latest", answer(total("ml", "1")))

    assert gpufleet("costs", "show", "--png", str(tmp_path / "none" / "costs.png")) == 2

    assert "--png" in capsys.readouterr().err
