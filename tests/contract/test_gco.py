"""Our OpenAPI against the contract of the GCO door: all of its operations, by the checker that came with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CONTRACTS = Path(__file__).parent.parent / "contracts"
PROBES = {f"get {path}" for path in ("/healthz", "/readyz", "/api/v1/health")}
"""What anybody may ask."""


@pytest.fixture(scope="module")
def contract():
    return json.loads((CONTRACTS / "gco.openapi.json").read_text())


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_every_operation_of_the_contract_holds(document, tmp_path):
    ours = tmp_path / "ours.json"
    ours.write_text(json.dumps(document))
    command = [sys.executable, CONTRACTS / "check.py", ours, CONTRACTS / "gco.openapi.json"]

    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert checked.stdout == "contract: 37 of 37 operations hold\n"
    assert checked.returncode == 0


def test_the_checker_finds_what_is_missing(document, tmp_path):
    """The proof is worth nothing if it can't fail."""
    missing = {path: methods for path, methods in document["paths"].items() if path != "/api/v1/queue/stats"}
    ours = tmp_path / "ours.json"
    ours.write_text(json.dumps(document | {"paths": missing}))
    command = [sys.executable, CONTRACTS / "check.py", ours, CONTRACTS / "gco.openapi.json"]

    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert checked.stdout == "GET    /api/v1/queue/stats: missing\ncontract: 36 of 37 operations hold\n"


def test_operations_have_the_ids_of_the_contract_so_that_generated_clients_keep_their_names(document, contract):
    ours = {name: operation["operationId"] for name, operation in operations(document)}

    assert {name: ours.get(name) for name, _ in operations(contract)} == {name: one["operationId"] for name, one in operations(contract)}
    assert len(set(ours.values())) == len(ours)


def test_every_answer_has_a_schema(document):
    for name, operation in operations(document):
        for code, answer in operation["responses"].items():
            schemas = [content["schema"] for content in answer["content"].values()]
            assert schemas, (name, code)
            assert all(schema for schema in schemas), (name, code)


def test_every_reference_leads_somewhere(document):
    def references(node):
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            node = list(node.values())
        if isinstance(node, list):
            for one in node:
                yield from references(one)

    known = {f"#/components/{sort}/{name}" for sort, named in document["components"].items() for name in named}

    assert set(references(document)) <= known


def test_whoever_needs_a_caller_says_what_becomes_of_others(document):
    """Nobody known, the wrong right, too often; and the keys themselves may be out of reach."""
    lacking = {
        name: missing
        for name, operation in operations(document)
        if name not in PROBES and (missing := {"401", "403", "429", "503"} - set(operation["responses"]))
    }

    assert lacking == {}
    assert {name for name, operation in operations(document) if "401" not in operation["responses"]} == PROBES
    assert all(operation.get("security") for name, operation in operations(document) if name not in PROBES)


def test_every_operation_can_fail_in_the_ways_that_all_can(document):
    for name, operation in operations(document):
        assert {"429", "500"} <= set(operation["responses"]), name


def test_what_names_a_thing_can_miss_it(document):
    for name, operation in operations(document):
        if "{" in name:
            assert "404" in operation["responses"], name


def test_what_reads_a_body_says_how_large_it_may_be_and_what_rules_it_has(document):
    for name, operation in operations(document):
        if "requestBody" in operation:
            assert {"413", "422"} <= set(operation["responses"]), name


def test_what_asks_the_cluster_says_that_it_may_refuse(document):
    for name, operation in operations(document):
        cluster = "/api/v1/jobs" in name or ("/api/v1/manifests" in name and not name.endswith("/validate"))
        assert cluster == ("502" in operation["responses"]), name


OWN_BODIES = {
    ("get /api/v1/health", "503"),
    ("post /api/v1/manifests", "400"),
    ("post /api/v1/jobs/{namespace}/{name}/retry", "400"),
    ("post /api/v1/jobs/from-template/{name}", "400"),
}
"""Failures that are told in the shape of the success, as the original does."""


@pytest.mark.parametrize(("name", "code"), sorted(own for own in OWN_BODIES if own[1] == "400"))
def test_failures_of_their_own_shape_have_what_every_error_has(document, name, code):
    reference = dict(operations(document))[name]["responses"][code]["content"]["application/json"]["schema"]["$ref"]
    schema = document["components"]["schemas"][reference.rpartition("/")[2]]

    assert {"detail", "request_id", "success", "errors"} <= set(schema["required"])


def test_errors_have_the_shape_that_we_send(document):
    for name, operation in operations(document):
        for code, answer in operation["responses"].items():
            if int(code) < 400 or (name, code) in OWN_BODIES:
                continue
            body = "ValidationBody" if code == "422" else "ErrorBody"
            assert answer["content"]["application/json"]["schema"] == {"$ref": f"#/components/schemas/{body}"}, (name, code)


def test_the_body_of_a_submission_is_closed(document):
    assert document["components"]["schemas"]["QueuedJobRequest"]["additionalProperties"] is False


def test_an_operation_that_refuses_parameters_says_so(document):
    """Whatever has no parameters can be sent some all the same; only the index and the probes take them."""
    silent = {name for name, operation in operations(document) if "422" not in operation["responses"]}

    assert silent == {f"get {path}" for path in ("/", "/healthz", "/readyz", "/api/v1/health", "/api/v1/status")}
