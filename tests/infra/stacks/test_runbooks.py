"""The runbook of each alarm, where docs/operations.md has them: one for each condition, under the anchor that the alarm names."""

from __future__ import annotations

import re
from pathlib import Path

from infra.conditions import CONDITIONS

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"


def test_each_runbook_is_of_a_condition_and_each_condition_has_one():
    headings = re.findall(r"^#+ (Alarm: .+)$", OPERATIONS.read_text(encoding="utf-8"), re.MULTILINE)
    # As a heading becomes an anchor: small letters, without punctuation, with hyphens for blanks.
    anchors = [heading.lower().replace(":", "").replace(" ", "-") for heading in headings]

    assert sorted(anchors) == sorted(one.runbook.partition("#")[2] for one in CONDITIONS)


def test_conditions_have_names_of_their_own_and_say_what_to_do():
    assert len({one.name for one in CONDITIONS}) == len(CONDITIONS)
    for one in CONDITIONS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", one.name)
        assert one.meaning.endswith(".")
        assert one.action.endswith(".")
        # CloudWatch takes descriptions of 1024 characters.
        assert len(f"{one.meaning} {one.action} Runbook: {one.runbook}") <= 1024
