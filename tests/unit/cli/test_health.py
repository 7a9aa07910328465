"""`gpufleet health`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.unit.health.test_telling import HEALTH
from workers.cli.health import seconds

DOCUMENT = json.loads(HEALTH.model_dump_json())


def test_a_table_of_regions_and_what_is_not_well(api, gpufleet, capsys):
    api.on("GET", "/fleet/v1/health", DOCUMENT)

    assert gpufleet("health") == 0

    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].split()[:6] == ["REGION", "READY", "OLDEST", "CLAIMED", "OLDEST", "OVERDUE"]
    assert lines[0].split()[6:] == ["OLDEST", "RUNNING", "DISPATCH", "OBSERVED", "SCRAPED"]
    assert lines[1].split() == ["us-east-1", "5", "1m", "2", "3.0s", "1", "0.5s", "4", "0.4s,", "2.5s", "12s", "30s"]
    assert lines[2].split() == ["eu-west-1", "0", "-", "0", "-", "0", "-", "0", "-", "never", "never"]
    assert "gpufleet-events  3" in printed.out
    assert "LAST HEARD  LAST GOOD PASS" in printed.out
    assert any(line.split() == ["dispatcher", "us-east-1", "well", "10s", "-", "0.2.0", "host/1", "-"] for line in lines)
    assert any(line.split()[:5] == ["dispatcher", "us-east-1", "stalled", "10s", "1m"] for line in lines)
    assert any(line.split()[:3] == ["sweeper", "all", "silent"] for line in lines)
    assert "scrapes could not be read: S3: no answer" in printed.err


def test_a_list_that_is_longer_than_was_read_says_so(api, gpufleet, capsys):
    region = DOCUMENT["regions"][0] | {"ready": {"count": 1000, "exact": False, "oldest_seconds": 7200.0}}
    api.on("GET", "/fleet/v1/health", DOCUMENT | {"regions": [region], "queues": [], "webhooks": None, "loops": [], "unread": {}})

    assert gpufleet("health") == 0

    assert "1000+  2h" in capsys.readouterr().out


def test_json_is_what_the_api_says(api, gpufleet, capsys):
    api.on("GET", "/fleet/v1/health", DOCUMENT)

    assert gpufleet("health", "--json") == 0

    assert json.loads(capsys.readouterr().out) == DOCUMENT
    assert datetime.fromisoformat(DOCUMENT["at"]).tzinfo == UTC


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.04, "0.0s"), (9.94, "9.9s"), (10.0, "10s"), (59.9, "59s"), (3599.0, "59m"), (90_000.0, "1d")]
)
def test_spans(value, text):
    assert seconds(value) == text
