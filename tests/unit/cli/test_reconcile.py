"""`gpufleet reconcile`: what it refuses, and how it tells what it found."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from shared.errors import InvalidError, Problem, UnavailableError
from shared.health.beats import Beat
from shared.jobs.reconciliation import Finding, Found
from tests.unit.jobs.builders import JOB_ID, queued, seen
from workers import reconciling
from workers.reconciling import Looked, Report, Settled

TIME = "2026-01-02T03:04:05Z"


@pytest.fixture
def found(monkeypatch):
    """What the command is given; what it asked for is in `asked`."""
    newer = Finding(found=Found.TAKE_UP, job_id=JOB_ID, head=queued(), seen=seen(execution=2), region="eu-west-1")
    forgotten = Finding(found=Found.FORGOTTEN, job_id="other", seen=seen(), region="us-east-1")
    told = Report(
        settled=[Settled(finding=newer, written=True), Settled(finding=forgotten, written=None)],
        looked=[Looked(region="eu-west-1", cluster="EKS cluster gpu-eu", objects=1), Looked(region="us-east-1", cluster="here", objects=0)],
        left_out=["us-west-2"],
        running=[Beat(worker="dispatcher", region="eu-west-1", owner="eu-west-1/host/7", at=datetime(2026, 1, 2, 4, tzinfo=UTC))],
    )
    asked = []

    async def reconcile(settings, aws, **options):
        asked.append(options)
        return told

    monkeypatch.setattr(reconciling, "reconcile", reconcile)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    return asked


@pytest.mark.parametrize(
    ("time", "rule"),
    [
        ("yesterday", "must be a time, as 2026-11-30T12:00:00Z"),
        ("2026-01-02T03:04:05", "must say its zone, as in 2026-11-30T12:00:00Z"),
        ("9999-01-01T00:00:00Z", "must not be in the future"),
    ],
    ids=["no time", "no zone", "future"],
)
def test_a_time_that_is_none_is_bad_usage(found, gpufleet, capsys, time, rule):
    assert gpufleet("reconcile", "--restored-to", time) == 2

    assert f"--restored-to: {time}: {rule}" in capsys.readouterr().err
    assert found == []


def test_what_was_found_is_a_table_and_what_it_means_is_said(found, gpufleet, capsys):
    assert gpufleet("reconcile", "--restored-to", TIME) == 0

    printed = capsys.readouterr()
    head, first, second = printed.out.splitlines()
    assert head.split() == ["ID", "FOUND", "NAME", "NAMESPACE", "REGION", "EXECUTION", "OBJECT", "WRITTEN"]
    assert first.split() == [JOB_ID, "take", "up", "train", "gco-jobs", "eu-west-1", "2", "train-1", "yes"]
    assert second.split() == ["other", "forgotten", "-", "gco-jobs", "us-east-1", "1", "train-1", "-"]
    assert "its object is left alone" in printed.err
    assert found == [{"restored_to": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "apply": False, "leave_out": []}]


def test_where_was_looked_and_where_not_is_said_and_who_seems_to_run(found, gpufleet, capsys):
    assert gpufleet("reconcile", "--restored-to", TIME, "--leave-out", "us-west-2") == 0

    said = capsys.readouterr().err
    assert "looked at eu-west-1 (EKS cluster gpu-eu): 1 object\nlooked at us-east-1 (here): 0 objects\n" in said
    assert "not looked at us-west-2, as was asked" in said
    assert "worker dispatcher of eu-west-1 seems to run, and must not: eu-west-1/host/7 told so at 2026-01-02 04:00:00 UTC" in said
    assert found[0]["leave_out"] == ["us-west-2"]


def test_a_region_that_was_left_out_unasked_is_bad_usage(found, gpufleet, capsys, monkeypatch):
    async def reconcile(settings, aws, **options):
        raise InvalidError([Problem(pointer="GPUFLEET_REGIONS", value="us-east-1", rule="must name eu-west-1 too")])

    monkeypatch.setattr(reconciling, "reconcile", reconcile)

    assert gpufleet("reconcile", "--restored-to", TIME) == 2

    assert "GPUFLEET_REGIONS: us-east-1: must name eu-west-1 too" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_told_and_nothing_else(found, gpufleet, capsys, monkeypatch, tmp_path):
    missing = tmp_path / "kubeconfig"
    monkeypatch.setenv("GPUFLEET_KUBECONFIG", str(missing))

    assert gpufleet("reconcile", "--restored-to", TIME) == 2

    assert capsys.readouterr().err == f"error: GPUFLEET_KUBECONFIG: {missing}: must be a file; there is none at this path\n"
    assert found == []


def test_json_is_one_document(found, gpufleet, capsys):
    assert gpufleet("reconcile", "--restored-to", TIME, "--apply", "--json") == 0

    document = json.loads(capsys.readouterr().out)
    assert (document["applied"], document["restored_to"]) == (True, "2026-01-02T03:04:05+00:00")
    assert [one["found"] for one in document["jobs"]] == ["take up", "forgotten"]
    assert document["regions"][0] == {"region": "eu-west-1", "cluster": "EKS cluster gpu-eu", "objects": 1}
    assert (document["left_out"], [one["owner"] for one in document["running"]]) == (["us-west-2"], ["eu-west-1/host/7"])


def test_a_part_that_does_not_answer_is_told(found, gpufleet, capsys, monkeypatch):
    async def reconcile(settings, aws, **options):
        raise UnavailableError("eu-west-1: no answer")

    monkeypatch.setattr(reconciling, "reconcile", reconcile)

    assert gpufleet("reconcile", "--restored-to", TIME) == 5

    assert "eu-west-1: no answer" in capsys.readouterr().err
