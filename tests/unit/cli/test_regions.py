"""`gpufleet regions`, and what `submit` says of a drained one."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.unit.cli.conftest import job
from workers.cli import regions as command

REGIONS = "/fleet/v1/regions"
JOBS = {"queued": 2, "claimed": 0, "pending": 1, "running": 3}


def region(state="open", name="us-east-1", **more):
    told = {"since": None, "by": None, "reason": None, "move": False, "interrupt": False, "jobs": JOBS}
    return {"region": name, "state": state, **told, **more}


DRAINED = region("drained", since="2026-01-02T03:04:05Z", by="ada", reason="new nodes", move=True, jobs=dict.fromkeys(JOBS, 0))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(command, "_LOOK_SECONDS", 0.0)


def test_a_table_of_regions(api, gpufleet, capsys):
    api.on("GET", REGIONS, {"regions": [region(), DRAINED | {"region": "eu-west-1", "jobs": None}]})

    assert gpufleet("regions", "list") == 0

    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["REGION", "STATE", "QUEUED", "CLAIMED", "PENDING", "RUNNING", "OPTIONS", "SINCE", "BY", "REASON"]
    assert first.split() == ["us-east-1", "open", "2", "0", "1", "3", "-", "-", "-", "-"]
    assert second.split()[:6] == ["eu-west-1", "drained", "-", "-", "-", "-"]
    assert second.endswith("move     2026-01-02 03:04:05 UTC  ada  new nodes")


def test_json_is_what_the_api_says(api, gpufleet, capsys):
    api.on("GET", REGIONS, {"regions": [region()]})

    assert gpufleet("regions", "list", "--json") == 0

    assert json.loads(capsys.readouterr().out) == {"regions": [region()]}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ((), {"move": True, "interrupt": False}),
        (("--keep", "--interrupt"), {"move": False, "interrupt": True}),
        (("--reason", "new nodes"), {"move": True, "interrupt": False, "reason": "new nodes"}),
    ],
    ids=["nothing said", "keep and interrupt", "reason"],
)
def test_what_is_said_is_sent(api, gpufleet, capsys, options, body):
    api.on("POST", f"{REGIONS}/us-east-1/drain", region("draining"))

    assert gpufleet("regions", "drain", "us-east-1", *options) == 0

    assert api.bodies() == [body]
    assert capsys.readouterr().out == "us-east-1 is draining (2 queued, 1 pending, 3 running)\n"


def test_a_wait_ends_when_nothing_is_at_work(api, gpufleet, capsys):
    api.on("POST", f"{REGIONS}/us-east-1/drain", region("draining"))
    fewer = region("draining", jobs=JOBS | {"running": 1})
    api.on("GET", REGIONS, {"regions": [region("draining")]}, {"regions": [fewer]}, httpx.ConnectError("away"), {"regions": [DRAINED]})

    assert gpufleet("regions", "drain", "us-east-1", "--wait", "--json") == 0

    assert json.loads(capsys.readouterr().out) == DRAINED


def test_a_wait_ends_with_a_conflict_where_somebody_resumes(api, gpufleet, capsys):
    api.on("POST", f"{REGIONS}/us-east-1/drain", region("draining"))
    api.on("GET", REGIONS, {"regions": [region("open", by="bob")]})

    assert gpufleet("regions", "drain", "us-east-1", "--wait") == 4

    assert "us-east-1 was resumed meanwhile, by bob" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"move": False, "interrupt": False}, "us-east-1: options changed by bob: keep instead of move, interrupt"),
        ({"since": "2026-01-02T03:09:05Z"}, "us-east-1: drained anew by bob"),
    ],
    ids=["other options", "resumed and drained"],
)
def test_a_wait_ends_with_a_conflict_where_somebody_drains_otherwise(api, gpufleet, capsys, change, told):
    mine = region("draining", since="2026-01-02T03:04:05Z", by="ada", move=True, interrupt=True)
    api.on("POST", f"{REGIONS}/us-east-1/drain", mine)
    api.on("GET", REGIONS, {"regions": [mine]}, {"regions": [mine | {"by": "bob"} | change]})

    assert gpufleet("regions", "drain", "us-east-1", "--interrupt", "--wait") == 4

    assert told in capsys.readouterr().err


def test_other_options_of_somebody_else_do_not_matter_once_it_is_drained(api, gpufleet):
    api.on("POST", f"{REGIONS}/us-east-1/drain", region("draining", since="2026-01-02T03:04:05Z", by="ada", move=True))
    api.on("GET", REGIONS, {"regions": [DRAINED | {"by": "bob", "move": False}]})

    assert gpufleet("regions", "drain", "us-east-1", "--wait") == 0


def test_a_region_is_resumed(api, gpufleet, capsys):
    api.on("POST", f"{REGIONS}/us-east-1/resume", region())

    assert gpufleet("regions", "resume", "us-east-1", "--reason", "done") == 0

    assert api.bodies() == [{"reason": "done"}]
    assert capsys.readouterr().out.startswith("us-east-1 is open")


def test_an_unknown_region_has_the_exit_code_of_what_is_not_found(api, gpufleet, capsys):
    detail = {"detail": "Region 'mars-1' not found (the regions of this fleet are us-east-1)", "request_id": "0" * 32}
    api.on("POST", f"{REGIONS}/mars-1/drain", detail, status=404)

    assert gpufleet("regions", "drain", "mars-1") == 3

    assert "the regions of this fleet are us-east-1" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "..", "us/east", "us\teast", "r" * 5000], ids=["empty", "dots", "slash", "tab", "long"])
@pytest.mark.parametrize("verb", ["drain", "resume"])
def test_what_can_be_no_region_is_told_the_regions_too(api, gpufleet, capsys, verb, name):
    api.on("GET", REGIONS, {"regions": [region(), region(name="eu-west-1")]})

    assert gpufleet("regions", verb, name) == 3

    assert "the regions of this fleet are us-east-1, eu-west-1" in capsys.readouterr().err


@pytest.mark.parametrize(("target", "told"), [("us-east-1", True), ("eu-west-1", False), ("any", False)], ids=["drained", "open", "any"])
def test_whoever_submits_to_a_drained_region_is_told_that_his_job_waits(api, gpufleet, capsys, tmp_path, target, told):
    manifest = tmp_path / "job.json"
    manifest.write_text(json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {}}))
    api.on("POST", "/api/v1/queue/jobs", {"job": job(target_region=target)}, status=201)
    api.on("GET", REGIONS, {"regions": [DRAINED, region(name="eu-west-1")]})

    assert gpufleet("submit", str(manifest), "--region", target) == 0

    said = "us-east-1 is drained since 2026-01-02 03:04:05 UTC by ada: new nodes; jobs wait until it is resumed"
    assert (said in capsys.readouterr().err) == told


def test_an_api_that_knows_no_regions_takes_jobs_all_the_same(api, gpufleet, capsys, tmp_path):
    manifest = tmp_path / "job.json"
    manifest.write_text(json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {}}))
    api.on("POST", "/api/v1/queue/jobs", {"job": job()}, status=201)

    assert gpufleet("submit", str(manifest), "--region", "us-east-1") == 0
