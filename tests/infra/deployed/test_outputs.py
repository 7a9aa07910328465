"""Outputs of a stack as an environment."""

from __future__ import annotations

import pytest

from infra.outputs import environment, for_people
from shared.errors import InvalidError

OUTPUTS = {
    "ControlRegion": "us-east-1",
    "Regions": "us-east-1,eu-west-1",
    "TableName": "fleet",
    "BucketName": "a-bucket",
    "QueuePrefix": "fleet",
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
        "AWS_REGION": "us-east-1",
    }


def test_people_get_the_api_as_well():
    assert for_people(OUTPUTS) == environment(OUTPUTS) | {"GPUFLEET_API": "https://an-api.example"}


def test_what_is_missing_is_told_at_once():
    with pytest.raises(InvalidError) as refused:
        environment({**OUTPUTS, "TableName": "", "BucketName": ""})
    assert [problem.pointer for problem in refused.value.problems] == ["/TableName", "/BucketName"]
