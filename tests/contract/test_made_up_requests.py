"""Requests that schemathesis makes up from our own description, to every operation, over a real server with a cluster behind it.

Every answer must be one that is declared: its status, its content type, its body and headers; none may be a failure of ours. What breaks
the description must be refused, and so must whoever shows no key or a wrong one. Every rule that
is told says what must be. The requests are the same in every run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import CheckContext, Response
from schemathesis.config import SchemathesisConfig

from tests.conftest import REGION, point_at
from tests.contract.served import KEY, NUMBER, ServedRegion, region_served
from workers.api.app import description

KNOWN = {
    "namespace": ["gco-jobs"],
    "name": ["train"],
    "job_id": ["KNOWN-JOB"],
    "pod_name": ["KNOWN-POD"],
    "webhook_id": ["KNOWN-WEBHOOK"],
    "rejection_id": ["known"],
    "queue": ["KNOWN-QUEUE"],
    "message_id": ["KNOWN-LETTER"],
    "number": [NUMBER],
    "key": ["KNOWN-REPORT"],
    "region": [REGION],
}
"""What stands in the region, by the path parameter that names it. Four in five requests ask for that, the others for anything."""
CONFIG = {
    "auth": {"openapi": {"key": {"bearer": KEY}}},
    "cache": {"enabled": False},
    "warnings": False,
    "dictionaries": {name: {"values": values} for name, values in KNOWN.items()},
    "parameters": {f"path.{name}": {"dictionary": name, "probability": 0.8} for name in KNOWN},
    "generation": {"mode": "all"},
    "phases": {"coverage": {"unexpected-methods": ["PATCH", "TRACE"]}},
    "checks": {"positive_data_acceptance": {"enabled": False}},
}
"""No description can say all that makes a manifest admissible; so what fits it may be refused all the same."""

schema = schemathesis.openapi.from_dict(description(), config=SchemathesisConfig.from_dict(CONFIG))


@schemathesis.check
def rules_say_what_must_be(_context: CheckContext, answer: Response, _case: schemathesis.Case) -> None:
    """Refusals are all in the same words, whoever found what was wrong."""
    if answer.status_code == 422:
        told = [one["msg"] for one in answer.json()["detail"] if one["type"] != "too_many_problems"]
        assert all("must" in rule for rule in told), told


@pytest.fixture(scope="module")
def region(aws_endpoint, tmp_path_factory) -> Iterator[ServedRegion]:
    with pytest.MonkeyPatch.context() as patch:
        point_at(aws_endpoint, patch)
        with region_served(aws_endpoint, tmp_path_factory.mktemp("region")) as found:
            yield found


@pytest.fixture
def statuses(region: ServedRegion) -> Iterator[list[int]]:
    """The statuses of one operation's answers. Without a success among them, most of the operation was never seen."""
    region.furnish()
    found: list[int] = []
    yield found
    assert any(status < 300 for status in found), sorted(set(found))


@schema.parametrize()
@settings(max_examples=15, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_declared(case: schemathesis.Case, region: ServedRegion, statuses: list[int]) -> None:
    things = region.things
    if (case.method, case.path) == ("DELETE", "/api/v1/queue/jobs/{job_id}"):
        things = things | {"KNOWN-JOB": things["KNOWN-WAITING-JOB"]}
    case.path_parameters = {name: things.get(value, value) for name, value in case.path_parameters.items()}
    answer = case.call_and_validate(base_url=region.url, timeout=30)
    statuses.append(answer.status_code)
