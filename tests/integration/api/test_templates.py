"""Templates through the GCO door: made, read, listed, changed and deleted, with every version kept."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.integration.api.conftest import manifest
from tests.integration.api.templates import TEMPLATES, create, template


async def test_a_template_is_made_read_listed_and_deleted(client):
    made = await client.post(TEMPLATES, json=template(description="trains"))
    read = (await client.get(f"{TEMPLATES}/train")).json()
    listed = (await client.get(TEMPLATES)).json()
    deleted = await client.delete(f"{TEMPLATES}/train")

    assert made.status_code == 201
    assert made.json().keys() == {"timestamp", "message", "template"}
    assert made.json()["template"] == read["template"]
    assert read["template"]["manifest"] == template()["manifest"]
    assert read["template"]["parameters"] == {"image": "pytorch/pytorch:2.5.0"}
    assert (read["template"]["description"], read["template"]["version"], read["template"]["created_by"]) == ("trains", 1, "local")
    assert listed["count"] == 1
    assert listed["templates"][0].keys() >= {"name", "description", "created_at", "updated_at"}
    assert listed["templates"][0].items() <= read["template"].items()
    assert (deleted.status_code, deleted.json()["message"]) == (200, "Template 'train' deleted")
    for method in ("GET", "DELETE"):
        gone = await client.request(method, f"{TEMPLATES}/train")
        assert (gone.status_code, gone.json()["detail"]) == (404, "Template 'train' not found")


async def test_a_second_of_the_same_name_is_a_conflict(client):
    await create(client)
    again = await client.post(TEMPLATES, json=template())

    assert (again.status_code, again.json()["detail"]) == (409, "Template 'train' already exists")


async def test_versions_are_kept(client):
    await create(client)
    changed = template(parameters={"image": "vllm/vllm-openai"}, description="new")
    del changed["name"]
    second = await client.put(f"{TEMPLATES}/train", json=changed)

    assert second.status_code == 200
    assert (second.json()["template"]["version"], second.json()["template"]["description"]) == (2, "new")
    old = (await client.get(f"{TEMPLATES}/train", params={"version": 1})).json()["template"]
    assert (old["version"], old["parameters"]) == (1, {"image": "pytorch/pytorch:2.5.0"})
    assert (await client.get(f"{TEMPLATES}/train", params={"version": 3})).status_code == 404
    assert (await client.put(f"{TEMPLATES}/other", json=changed)).status_code == 404

    await client.delete(f"{TEMPLATES}/train")
    kept = (await client.get(f"{TEMPLATES}/train", params={"version": 1})).json()["template"]
    assert kept["deleted_at"] is not None
    assert (await create(client))["version"] == 3


async def test_lists_page_newest_first(client):
    for number in range(5):
        await create(client, f"t{number}")

    first = (await client.get(TEMPLATES, params={"limit": 3})).json()
    rest = (await client.get(TEMPLATES, params={"limit": 3, "cursor": first["next_cursor"]})).json()

    assert [one["name"] for one in first["templates"] + rest["templates"]] == ["t4", "t3", "t2", "t1", "t0"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("size", [255 * 1024, 390_000, 401_000])
async def test_large_manifests_are_kept(client, size):
    """Case 14."""
    noise = "".join(random.Random(size).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=size))
    large = manifest(env=[{"name": "DATA", "value": noise}])
    await create(client, "large", manifest=large, parameters={})

    assert (await client.get(f"{TEMPLATES}/large")).json()["template"]["manifest"] == large


async def test_many_who_change_a_template_at_once_all_do(client):
    await create(client)
    changes = [{"manifest": manifest(), "parameters": {}, "description": str(number)} for number in range(12)]

    answers = await asyncio.gather(*(client.put(f"{TEMPLATES}/train", json=change) for change in changes))

    assert {answer.status_code for answer in answers} == {200}
    assert sorted(answer.json()["template"]["version"] for answer in answers) == list(range(2, 14))
