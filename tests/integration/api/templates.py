"""A template, how tests have the API keep it, and the places of what it refuses."""

from __future__ import annotations

from tests.integration.api.conftest import manifest

TEMPLATES = "/api/v1/templates"
FROM_TEMPLATE = "/api/v1/jobs/from-template"
SPEC = "/manifest/spec/template/spec"


def template(name="train", **fields):
    return {"name": name, "manifest": manifest(image="{{image}}"), "parameters": {"image": "pytorch/pytorch:2.5.0"}} | fields


async def create(client, name="train", **fields):
    answer = await client.post(TEMPLATES, json=template(name, **fields))
    assert answer.status_code == 201, answer.text
    return answer.json()["template"]


def places(answer):
    assert answer.status_code == 422, answer.text
    return [problem["pointer"] for problem in answer.json()["detail"]]
