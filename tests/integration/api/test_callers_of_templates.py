"""Whose a template is: the namespace that it names, where its Jobs are made, and who sees, uses and changes it."""

from __future__ import annotations

import pytest

from shared.identity.callers import Caller, Right
from tests.integration.api.conftest import manifest, serving_caller
from tests.integration.api.templates import FROM_TEMPLATE, TEMPLATES, create, places
from tests.integration.region import job
from workers.api.cluster_access import ClusterAccess
from workers.api.core import build

NAMESPACE = "/manifest/metadata/namespace"


async def test_only_its_maker_or_a_caller_of_all_namespaces_changes_a_template(core):
    def caller(name, namespaces=None, rights=(Right.READ, Right.SUBMIT)):
        return Caller(name=name, rights=frozenset(rights), namespaces=namespaces)

    bound = frozenset({"gco-jobs"})
    async with serving_caller(core, caller("ann", bound)) as ann:
        await create(ann)
    async with serving_caller(core, caller("bob", bound)) as bob:
        refused = await bob.delete(f"{TEMPLATES}/train")
        assert refused.status_code == 403
        assert "template 'train', which ann has made" in refused.json()["detail"]
        assert (await bob.get(f"{TEMPLATES}/train")).status_code == 200
    async with serving_caller(core, caller("reader", None, [Right.READ])) as reader:
        assert (await reader.delete(f"{TEMPLATES}/train")).status_code == 403
    async with serving_caller(core, caller("ann", bound)) as ann:
        assert (await ann.put(f"{TEMPLATES}/train", json={"manifest": manifest()})).status_code == 200
    async with serving_caller(core, caller("operator")) as operator:
        assert (await operator.delete(f"{TEMPLATES}/train")).status_code == 200


@pytest.fixture
async def teams(region, tmp_path):
    """An API on a cluster whose policy allows two namespaces; gives clients of callers."""
    policy = tmp_path / "policy.json"
    policy.write_text('{"allowed_namespaces": ["gco-jobs", "team-b"]}')
    settings = region.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig", "policy_file": policy})
    access = ClusterAccess(settings)
    core = await build(settings, region.aws, access=access)
    await region.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "team-b"}})

    def caller(*namespaces):
        name = "-".join(namespaces) or "everybody"
        rights = frozenset({Right.READ, Right.SUBMIT})
        return serving_caller(core, Caller(name=name, rights=rights, namespaces=frozenset(namespaces) or None))

    yield caller
    await access.close()


def named(namespace, **fields):
    wanted = job(hang="true")
    wanted["metadata"]["namespace"] = namespace
    return {"manifest": wanted, "parameters": {}} | fields


async def use(client, name="train", job_name="mine", **fields):
    return await client.post(f"{FROM_TEMPLATE}/{name}", json={"name": job_name} | fields)


async def test_the_namespace_of_a_template_is_where_its_jobs_are_made(teams, region):
    async with teams() as client:
        await create(client, "fixed", **named("team-b"))
        await create(client, "filled", **named("{{ns}}"))
        await create(client, "none", manifest=job(hang="true"), parameters={})

        for number, (name, fields, namespace) in enumerate(
            [
                ("fixed", {}, "team-b"),
                ("fixed", {"namespace": "team-b"}, "team-b"),
                ("fixed", {"namespace": None}, "team-b"),
                ("filled", {"parameters": {"ns": "team-b"}}, "team-b"),
                ("none", {}, "gco-jobs"),
                ("none", {"namespace": "team-b"}, "team-b"),
            ]
        ):
            answer = await use(client, name, f"j{number}", **fields)
            assert (answer.status_code, answer.json()["namespace"]) == (201, namespace), answer.text
            path = f"/apis/batch/v1/namespaces/{namespace}/jobs/j{number}"
            assert (await region.api.request("GET", path))["metadata"]["uid"] == answer.json()["uid"]


async def test_a_namespace_that_contradicts_is_refused(teams, region):
    async with teams() as client:
        await create(client, "fixed", **named("team-b"))
        await create(client, "filled", **named("{{ns}}"))

        other = await use(client, "fixed", namespace="gco-jobs")
        filled = await use(client, "filled", namespace="gco-jobs", parameters={"ns": "kube-system"})
        system = await use(client, "filled", parameters={"ns": "kube-system"})
        wrong = await client.post(TEMPLATES, json={"name": "system"} | named("kube-system"))

    assert places(other) == places(filled) == places(wrong) == [NAMESPACE]
    assert other.json()["detail"][0]["msg"] == "must be 'gco-jobs', the namespace of the submission, or be left out"
    assert (system.status_code, "Namespace 'kube-system' not allowed" in system.json()["detail"]) == (403, True)
    assert await region.objects() == []


async def test_a_template_that_names_a_namespace_is_of_its_callers_only(teams):
    async with teams() as everybody, teams("gco-jobs") as ann, teams("team-b") as bob:
        shared = await create(ann, "shared", manifest=job(hang="true"), parameters={})
        filled = await create(ann, "filled", **named("{{ns}}"))
        own = await create(bob, "own", **named("team-b"))
        assert [one["namespace"] for one in (shared, filled, own)] == [None, None, "team-b"]

        for client, seen in ((everybody, {"shared", "filled", "own"}), (bob, {"shared", "filled", "own"}), (ann, {"shared", "filled"})):
            assert {one["name"] for one in (await client.get(TEMPLATES)).json()["templates"]} == seen
        for answer in [
            await ann.get(f"{TEMPLATES}/own"),
            await ann.put(f"{TEMPLATES}/own", json={"manifest": job()}),
            await ann.delete(f"{TEMPLATES}/own"),
            await use(ann, "own"),
        ]:
            assert (answer.status_code, answer.json()["detail"]) == (404, "Template 'own' not found")
        hidden = await ann.get(f"{TEMPLATES}/own", params={"version": 1})
        assert (hidden.status_code, hidden.json()["detail"]) == (404, "Template 'own@1' not found")
        unread = await use(ann, "own", job_name=5)
        assert places(unread) == ["/name"]
        assert (await use(bob, "own")).status_code == 201
        assert (await ann.post(TEMPLATES, json={"name": "theirs"} | named("team-b"))).status_code == 403
        assert (await ann.put(f"{TEMPLATES}/shared", json=named("team-b"))).status_code == 403
        foreign = await use(ann, "filled", parameters={"ns": "team-b"})
        assert (foreign.status_code, "not allowed for gco-jobs" in foreign.json()["detail"]) == (403, True)

        assert (await bob.put(f"{TEMPLATES}/own", json={"manifest": job()})).status_code == 200
        assert (await ann.get(f"{TEMPLATES}/own")).status_code == 200
        assert (await ann.get(f"{TEMPLATES}/own", params={"version": 1})).status_code == 404
