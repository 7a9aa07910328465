"""What this version writes into the table, the last released one can read: both run side by side during an upgrade.

An unknown attribute of an item is passed over. A nested record with an unknown field, and a value that an enumeration has not got, can't be
read. So a version may add attributes at once, and anything else only when its predecessor can read it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from shared.health.beats import Beat
from shared.jobs import transitions
from shared.jobs.change import Change
from shared.jobs.model import ClusterObject, EventType, Record, StopIntent, WaitKind
from shared.jobs.placement import ClusterReport
from shared.jobs.states import State
from shared.store import items
from tests.unit.jobs.builders import NOW, at, claimed, queued
from tests.upgrade.programs import ROOT, released

UNKNOWN = {EventType: {"moved"}}
"""Values that the released version can't read, each with what keeps it from meeting them: jobs are moved only by a drain, and regions are
not drained until every worker is of this version (docs/operations.md)."""

READ = """
import json, sys
from shared.health.beats import Beat
from shared.jobs.model import Event, Execution, Head
from shared.jobs.placement import ClusterReport
from shared.store import items
kinds = {kind.__name__: kind for kind in (Beat, ClusterReport, Event, Execution, Head)}
for name, item in json.load(sys.stdin):
    items.from_item(kinds[name], item)
"""

VALUES = """
import json
from shared.jobs import model, states
print(json.dumps({name: list(getattr(module, name)) for module, names in
    ((model, ("EventType", "StopIntent", "WaitKind")), (states, ("State",))) for name in names}))
"""


def released_python(code: Any, program: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=code, env={"PYTHONPATH": str(code)}, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def life() -> Iterable[Change]:
    """Changes of a job that lead through most of what can happen to it."""
    first = queued()
    yield transitions.submitted(first)
    held = claimed()
    committed = transitions.committed(held, ClusterObject(name="train-1", uid="u1"), at())
    yield committed
    running = transitions.running(committed.after, NOW, at())
    yield running
    asked = transitions.stop_requested(running.after, StopIntent.INTERRUPTION, "its machine goes", "ada", at())
    assert asked is not None
    yield asked
    yield transitions.stopped(asked.after, at())
    yield transitions.attempt_failed(running.after, "failed", "exit code 1", at())
    yield transitions.succeeded(running.after, NOW + timedelta(minutes=5), at(), message="2 lines kept")


def records(change: Change) -> Iterable[Record]:
    yield change.after
    yield from change.events
    if change.ended is not None:
        yield change.ended


def test_the_released_version_reads_what_this_one_writes(released_code):
    written: list[Record] = [record for change in life() for record in records(change)]
    written.append(ClusterReport(region="us-east-1", at=NOW, nodes=1, gpus_total=8, gpus_free=8))
    written.append(Beat(worker="sweeper", owner="all/host/1", at=NOW, passed_at=NOW, release="0.2.0"))
    told = [(type(record).__name__, items.to_item(record)) for record in written]

    released_python(released_code, READ, json.dumps(told))


@pytest.mark.parametrize("kind", [EventType, StopIntent, WaitKind, State], ids=lambda kind: kind.__name__)
def test_a_new_value_is_known_to_the_released_version_or_kept_from_it(released_code, kind):
    known = set(json.loads(released_python(released_code, VALUES))[kind.__name__])

    assert {one.value for one in kind} - known == UNKNOWN.get(kind, set())


def test_the_released_version_is_named_by_its_commit():
    name, commit = released()

    assert name.startswith("v")
    assert len(commit) == 40
    assert (ROOT / "tests/upgrade/released.txt").read_text().count("\n") == 1
