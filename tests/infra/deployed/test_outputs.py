"""Outputs of a stack as an environment."""

from __future__ import annotations

import pytest

from infra.outputs import CONTROL, choose, environment, for_people, main
from shared.errors import InvalidError

OUTPUTS = {
    "ControlRegion": "us-east-1",
    "Regions": "us-east-1,eu-west-1",
    "TableName": "fleet",
    "BucketName": "a-bucket",
    "QueuePrefix": "fleet",
    "SecretsPrefix": "secrets-of-fleet",
    "EksClusters": "us-east-1=fleet,eu-west-1=fleet",
    "ApiUrl": "https://an-api.example",
    "Another": "thing",
}


def test_workers_get_their_settings():
    assert environment(OUTPUTS) == {
        "GPUFLEET_CONTROL_REGION": "us-east-1",
        "GPUFLEET_REGIONS": "us-east-1,eu-west-1",
        "GPUFLEET_TABLE": "fleet",
        "GPUFLEET_BUCKET": "a-bucket",
        "GPUFLEET_QUEUE_PREFIX": "fleet",
        "GPUFLEET_SECRETS_PREFIX": "secrets-of-fleet",
        "AWS_REGION": "us-east-1",
    }


def test_people_get_the_api_and_the_clusters_as_well():
    more = {"GPUFLEET_API": "https://an-api.example", "GPUFLEET_EKS_CLUSTERS": "us-east-1=fleet,eu-west-1=fleet"}
    assert for_people(OUTPUTS) == environment(OUTPUTS) | more


def test_what_is_missing_is_told_at_once():
    with pytest.raises(InvalidError) as refused:
        environment({**OUTPUTS, "TableName": "", "BucketName": ""})
    assert [problem.pointer for problem in refused.value.problems] == ["/TableName", "/BucketName"]


def test_people_get_where_callers_with_tokens_go_where_there_is_such_an_api():
    tokens = {"TokensApiUrl": "https://tokens.example"}
    assert for_people(OUTPUTS | tokens) == for_people(OUTPUTS) | {"GPUFLEET_TOKENS_API": "https://tokens.example"}


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Settings of an installation with a name of its own."""
    path = tmp_path / "settings.toml"
    path.write_text(
        'name = "mine"\ncontrol_region = "eu-west-1"\n[[regions]]\nname = "eu-west-1"\n[[regions.pools]]\nname = "gpu"\n'
        'instance_types = ["g6.xlarge"]\nmax_nodes = 1\ngpus = 1\ncpus = 4\nmemory_gib = 16\n'
    )
    monkeypatch.setenv("GPUFLEET_INFRA_SETTINGS", str(path))
    monkeypatch.delenv("AWS_REGION", raising=False)
    return path


def test_the_settings_say_which_stack_it_is_and_where(settings, monkeypatch):
    assert choose([]) == ("eu-west-1", "mine-control")
    assert choose(["--stack", "other"]) == ("eu-west-1", "other")

    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert choose([]) == ("us-west-2", "mine-control")
    assert choose(["--region", "us-east-1"]) == ("us-east-1", "mine-control")

    monkeypatch.delenv("GPUFLEET_INFRA_SETTINGS")
    assert choose([]) == ("us-west-2", CONTROL)


def test_settings_that_are_wrong_are_told_where_they_are_asked(settings, capsys):
    settings.write_text("colour = 1")
    assert main([]) == 2
    assert "/colour" in capsys.readouterr().err
    assert choose(["--region", "us-east-1", "--stack", "other"]) == ("us-east-1", "other")
