"""Templates that are refused: what is wrong with them, each told with its place, and all at once."""

from __future__ import annotations

import pytest

from tests.integration.api.conftest import manifest
from tests.integration.api.templates import FROM_TEMPLATE, SPEC, TEMPLATES, create, places, template


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": "bad name"}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": "x" * 64}, "/name"),
        ({"name": 1}, "/name"),
        ({"manifest": None}, "/manifest"),
        ({"manifest": []}, "/manifest"),
        ({"parameters": []}, "/parameters"),
        ({"parameters": {"image": "evil/miner"}}, f"{SPEC}/containers/0/image"),
        ({"parameters": {"image": "pytorch/pytorch", "surplus": 1}}, "/parameters/surplus"),
        ({"parameters": {"image": {}}}, f"{SPEC}/containers/0/image"),
        ({"manifest": {"kind": "Secret", "apiVersion": "v1"}, "parameters": None}, "/manifest/kind"),
        ({"description": 5}, "/description"),
        ({"description": "x" * 5000}, "/description"),
        ({"surplus": 1}, "/surplus"),
    ],
)
async def test_a_wrong_template_is_told_where(shared_client, fields, pointer):
    assert set(places(await shared_client.post(TEMPLATES, json=template() | fields))) == {pointer}


async def test_whatever_is_wrong_comes_at_once(shared_client):
    bad = manifest(image="evil/miner", securityContext={"privileged": True}, args=["a{{x}}"])
    body = {"name": "bad name", "manifest": bad, "parameters": {"x": {}, "y": 1}, "surplus": 1}

    assert sorted(places(await shared_client.post(TEMPLATES, json=body))) == [
        f"{SPEC}/containers/0/image",
        f"{SPEC}/containers/0/securityContext/privileged",
        "/name",
        "/parameters/x",
        "/parameters/y",
        "/surplus",
    ]


@pytest.mark.parametrize("name", ["a b", "%00", "é", "x" * 64, "unknown", "-"])
async def test_what_is_no_template_is_not_found(shared_client, name):
    for method, path in [("GET", TEMPLATES), ("DELETE", TEMPLATES), ("PUT", TEMPLATES), ("POST", FROM_TEMPLATE)]:
        body = {"json": {"name": "x"} if method == "POST" else {"manifest": manifest()}} if method in {"POST", "PUT"} else {}
        answer = await shared_client.request(method, f"{path}/{name}", **body)
        assert answer.status_code == 404, (method, answer.text)


async def test_many_bytes_in_few_characters_are_kept_and_too_many_are_told(client):
    """Case 14."""
    await create(client, "accents", manifest=manifest(env=[{"name": "DATA", "value": "é" * 250_000}]), parameters={})
    huge = template(manifest=manifest(env=[{"name": "DATA", "value": "x" * 1_500_000}]), parameters={})
    answer = await client.post(TEMPLATES, json=huge)

    assert places(answer) == ["/manifest"]
    assert "1441792" in answer.json()["detail"][0]["msg"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"manifest": manifest(env=[{"name": "DATA", "value": "x" * 1_500_000}]), "parameters": {}}, "/manifest"),
        ({"manifest": manifest(env=[{"name": "DATA", "value": "{{data}}"}]), "parameters": {"data": "x" * 1_500_000}}, "/parameters"),
    ],
    ids=["manifest", "filled"],
)
async def test_one_that_is_too_large_is_told_as_that_with_its_size_and_limit(client, fields, pointer):
    """As jobs and manifests are; beside other faults it is one of them."""
    await create(client)
    made = await client.post(TEMPLATES, json=template("large", **fields))
    replaced = await client.put(f"{TEMPLATES}/train", json=fields)
    beside = await client.post(TEMPLATES, json=template("no name", **fields))

    for answer in (made, replaced):
        assert places(answer) == [pointer]
        (problem,) = answer.json()["detail"]
        assert (problem["type"], problem["ctx"]["limit"]) == ("too_large", 1_441_792)
        assert problem["ctx"]["size"] > 1_500_000
    assert places(beside) == ["/name", pointer]
