"""Our OpenAPI against the contract of the GCO door, for the operations that are built so far."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from shared.settings import Settings
from workers.api.app import create_app

CONTRACTS = Path(__file__).parent.parent / "contracts"
BUILT = ("/api/v1/queue/jobs", "/api/v1/queue/jobs/{job_id}", "/api/v1/queue/stats", "/api/v1/queue/poll")
BUILT += ("/", "/healthz", "/readyz", "/api/v1/health", "/api/v1/status")


@pytest.fixture(scope="module")
def document():
    return create_app(SimpleNamespace(settings=Settings())).openapi()


def test_every_operation_that_is_built_holds(document, tmp_path):
    contract = json.loads((CONTRACTS / "gco.openapi.json").read_text())
    contract["paths"] = {path: contract["paths"][path] for path in BUILT}
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    ours.write_text(json.dumps(document))
    theirs.write_text(json.dumps(contract))

    checked = subprocess.run([sys.executable, CONTRACTS / "check.py", ours, theirs], capture_output=True, text=True, check=False)

    assert checked.stdout == "contract: 11 of 11 operations hold\n"


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_every_success_has_a_schema_and_every_operation_tells_its_errors(document):
    for name, operation in operations(document):
        for code, answer in operation["responses"].items():
            schemas = [content["schema"] for content in answer["content"].values()]
            assert schemas, (name, code)
            assert all(schema for schema in schemas), (name, code)
        assert "500" in operation["responses"], name


def test_problems_have_the_shape_that_we_send(document):
    for name, operation in operations(document):
        if "422" in operation["responses"]:
            schema = operation["responses"]["422"]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ValidationBody"}, name


def test_the_body_of_a_submission_is_closed(document):
    assert document["components"]["schemas"]["QueuedJobRequest"]["additionalProperties"] is False


def test_an_operation_that_refuses_parameters_says_so(document):
    """Whatever has no parameters can be sent some all the same; only the index and the probes take them."""
    silent = {name for name, operation in operations(document) if "422" not in operation["responses"]}

    assert silent == {f"get {path}" for path in ("/", "/healthz", "/readyz", "/api/v1/health", "/api/v1/status")}
