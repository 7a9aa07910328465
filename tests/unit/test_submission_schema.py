"""The JSON Schema of the queue's messages: current, and of one mind with the model."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from shared.errors import InvalidError
from shared.queues.submissions import json_schema, message_of

PUBLISHED = Path(__file__).parents[2] / "docs" / "submission.schema.json"
JOB = {"manifest": {"kind": "Job"}, "target_region": "any"}


def test_the_published_schema_is_current():
    """`python -m workers.ingest.schema > docs/submission.schema.json` renews it."""
    assert json.loads(PUBLISHED.read_text()) == json_schema()


@pytest.mark.parametrize(
    "message",
    [
        JOB,
        JOB | {"labels": None, "max_spot_price": 0.5, "spot_instance_type": "g5.xlarge", "priority": 100},
        JOB | {"retry": {"max_attempts": 2}, "timeouts": {"total_seconds": None}, "idempotency_key": "a/b", "reference": "order 7"},
        {"s3": {"bucket": "a-bucket", "key": "jobs/1.json"}},
    ],
)
def test_schema_and_model_take_the_same(message):
    jsonschema.Draft202012Validator(json_schema()).validate(message)
    message_of(message)


@pytest.mark.parametrize(
    "message",
    [
        {},
        [],
        JOB | {"priority": "5"},
        JOB | {"priority": 101},
        JOB | {"surplus": 1},
        JOB | {"max_spot_price": 0},
        JOB | {"labels": {"a": 1}},
        JOB | {"idempotency_key": "a b"},
        JOB | {"retry": {"max_attempts": 0}},
        {"s3": {"bucket": "A", "key": "x"}},
        {"s3": {"bucket": "a-bucket"}},
        JOB | {"s3": {"bucket": "a-bucket", "key": "x"}},
    ],
)
def test_schema_and_model_refuse_the_same(message):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json_schema()).validate(message)
    with pytest.raises(InvalidError):
        message_of(message)
