"""`gpufleet openapi`: the same document as a server's, whatever the process has done before."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from shared.settings import Settings
from workers.api.app import GROUPS, create_app
from workers.cli.main import run


@pytest.fixture(scope="module")
def printed():
    """By a process of its own in an environment without AWS."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd()), "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", "from workers.cli.main import main; main()", "openapi"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_it_prints_the_document_of_every_door(printed, document):
    assert json.loads(printed) == document
    assert json.dumps(document, indent=2) + "\n" == printed


def test_a_file_gets_the_same(printed, tmp_path, capsys):
    out = tmp_path / "openapi.json"

    assert run(["openapi", "--out", str(out)]) == 0

    assert out.read_text() == printed
    assert capsys.readouterr().out == ""


def test_a_file_that_can_not_be_written_is_told(tmp_path, capsys):
    assert run(["openapi", "--out", str(tmp_path / "none" / "openapi.json")]) == 2

    assert "--out" in capsys.readouterr().err


@pytest.mark.parametrize("first", ["/fleet/v1/jobs", "/api/v1/jobs", "/healthz"])
def test_it_does_not_depend_on_what_was_opened_first(first, document):
    app = create_app(SimpleNamespace(settings=Settings()))
    for path in (first, "/api/v1/queue/jobs"):
        app.open(path)

    assert json.dumps(app.openapi()) == json.dumps(document)


def test_every_route_is_under_a_prefix_of_its_group(document):
    """Otherwise it would only be found once everything is open."""
    prefixes = tuple(prefix for group in GROUPS for prefix in group.prefixes)

    assert {path for path in document["paths"] if not path.startswith(prefixes)} <= {"/"}


def test_every_path_is_answered_by_its_first_request(document):
    """The groups that a path opens have the route that the whole app would take for it."""
    whole = create_app(SimpleNamespace(settings=Settings()))
    whole.open()
    for path in document["paths"]:
        app = create_app(SimpleNamespace(settings=Settings()))
        app.open(path)
        expected, found = ([route for route in one.router.routes if getattr(route, "path", None) == path] for one in (whole, app))
        assert {route.name for route in found} == {route.name for route in expected}, path
