"""The settings of an installation: what is wrong with them is told all at once, with its place and the rule."""

from __future__ import annotations

import pytest

from infra.cdk.settings import Installation
from shared.errors import InvalidError
from tests.infra.stacks.installations import document


def faults(found):
    with pytest.raises(InvalidError) as caught:
        Installation.of(found)
    return {problem.pointer: (problem.told, problem.rule) for problem in caught.value.problems}


def test_the_settings_that_the_project_comes_with_hold():
    found = Installation.load()

    assert found.control_region == "us-east-1"
    assert found.region_names == ("us-east-1", "eu-west-1")
    assert found.removal == "retain"
    assert all(chart is not None for chart in (found.charts.kueue, found.charts.device_plugin, found.charts.dcgm_exporter))


@pytest.mark.parametrize(
    ("change", "pointer", "told", "rule"),
    [
        ({"control_region": "mars"}, "/control_region", "mars", "must match ^[a-z]{2}(-[a-z]+)+-[0-9]$"),
        ({"regions": []}, "/regions", None, "must have at least 1 item, not 0"),
        ({"name": "Fleet"}, "/name", "Fleet", "must match ^[a-z][a-z0-9-]{0,19}$"),
        ({"removal": "keep"}, "/removal", "keep", "must be 'retain' or 'destroy'"),
        ({"log_retention_days": 31}, "/log_retention_days", 31, "must be 1, 3, 5, 7, 14"),
        ({"usage_days": 7}, "/usage_days", 7, "must be greater than or equal to 39"),
        ({"colour": "red"}, "/colour", "red", "must be a setting that there is"),
        ({"api": {"rate": 0}}, "/api/rate", 0, "must be greater than or equal to 1"),
        ({"api": {"jwt": {"issuer": "http://issuer.example"}}}, "/api/jwt/audience", None, "must be there"),
        ({"workers": {"image": "GPUFleet"}}, "/workers/image", "GPUFleet", "must match"),
        ({"charts": {"kueue": {"repository": "https://charts.example", "version": "1.2.3"}}}, "/charts/kueue", None, "chart must name the"),
        (
            {"alarms": {"email": "a@example.com", "topic_arn": "arn:aws:sns:us-east-1:123456789012:on-call"}},
            "/alarms",
            None,
            "email and topic_arn must not both be set",
        ),
        ({"environment": {"GPUFLEET_TABLE": "mine"}}, "", None, "environment must not hold GPUFLEET_TABLE: the stacks decide that"),
        ({"environment": {"GPUFLEET_REDY_SHARDS": "4"}}, "", None, "GPUFLEET_REDY_SHARDS is none"),
        ({"environment": {"GPUFLEET_READY_SHARDS": "many"}}, "", None, "GPUFLEET_READY_SHARDS: Input should be a valid integer"),
        ({"metrics": {"rollups": ["planet"]}}, "", None, "environment must hold values that workers take: GPUFLEET_METRICS_ROLLUPS"),
        ({"kubernetes_version": "latest"}, "/kubernetes_version", "latest", "must match"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "-",
)
def test_what_is_wrong_is_told_with_its_place_and_the_rule(change, pointer, told, rule):
    found = faults(document() | change)

    assert pointer in found
    assert found[pointer][0] == told
    assert rule in found[pointer][1]


def test_all_faults_are_told_at_once():
    found = document()
    found["regions"][0]["pools"][0] |= {"max_nodes": 0, "gpus": -1, "instance_types": ["large"]}
    found["control_region"] = "here"

    assert set(faults(found)) == {
        "/control_region",
        "/regions/0/pools/0/max_nodes",
        "/regions/0/pools/0/gpus",
        "/regions/0/pools/0/instance_types/0",
    }


def test_a_region_or_a_pool_that_comes_twice_is_refused():
    twice = document()
    twice["regions"][1]["name"] = "us-east-1"
    assert "us-east-1 comes more than once" in faults(twice)[""][1]

    twice = document()
    twice["regions"][0]["pools"][1]["name"] = "gpu"
    assert "gpu comes more than once" in faults(twice)["/regions/0"][1]

    twice = document()
    twice["regions"][0]["pools"][1]["name"] = "system"
    assert "system comes more than once" in faults(twice)["/regions/0"][1]


@pytest.mark.parametrize(("text", "rule"), [(None, "must be a file that can be read"), ("= 1", "must be TOML")], ids=["missing", "no TOML"])
def test_a_file_that_is_none_is_told(tmp_path, text, rule):
    path = tmp_path / "settings.toml"
    if text is not None:
        path.write_text(text)

    with pytest.raises(InvalidError, match=rule) as caught:
        Installation.load(path)
    assert str(path) in str(caught.value)


def test_another_file_is_named_by_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ncontrol_region = "eu-west-1"\n[[regions]]\nname = "eu-west-1"\n[[regions.pools]]\nname = "gpu"\n'
        'instance_types = ["g6.xlarge"]\nmax_nodes = 1\ngpus = 1\ncpus = 4\nmemory_gib = 16\n'
    )
    monkeypatch.setenv("GPUFLEET_INFRA_SETTINGS", str(path))

    assert Installation.load().name == "mine"
