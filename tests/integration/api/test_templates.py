"""Templates through the GCO door, and what is made of them on a cluster."""

from __future__ import annotations

import asyncio
import random

import pytest

from shared.identity.callers import Caller, Right
from tests.integration.api.conftest import manifest, serving, serving_caller
from tests.integration.region import job
from workers.api.cluster_access import ClusterAccess
from workers.api.core import build

TEMPLATES = "/api/v1/templates"
NAMESPACE = "/manifest/metadata/namespace"
JOBS = "/api/v1/jobs/from-template"
SPEC = "/manifest/spec/template/spec"


@pytest.fixture
async def on_cluster(region, tmp_path):
    access = ClusterAccess(region.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"}))
    async with serving(await build(region.settings, region.aws, access=access)) as found:
        yield found
    await access.close()


def template(name="train", **fields):
    return {"name": name, "manifest": manifest(image="{{image}}"), "parameters": {"image": "pytorch/pytorch:2.5.0"}} | fields


async def create(client, name="train", **fields):
    answer = await client.post(TEMPLATES, json=template(name, **fields))
    assert answer.status_code == 201, answer.text
    return answer.json()["template"]


def places(answer):
    assert answer.status_code == 422, answer.text
    return [problem["pointer"] for problem in answer.json()["detail"]]


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
    for method, path in [("GET", TEMPLATES), ("DELETE", TEMPLATES), ("PUT", TEMPLATES), ("POST", JOBS)]:
        body = {"json": {"name": "x"} if method == "POST" else {"manifest": manifest()}} if method in {"POST", "PUT"} else {}
        answer = await shared_client.request(method, f"{path}/{name}", **body)
        assert answer.status_code == 404, (method, answer.text)


@pytest.mark.parametrize("size", [255 * 1024, 390_000, 401_000])
async def test_large_manifests_are_kept(client, size):
    """Case 14."""
    noise = "".join(random.Random(size).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=size))
    large = manifest(env=[{"name": "DATA", "value": noise}])
    await create(client, "large", manifest=large, parameters={})

    assert (await client.get(f"{TEMPLATES}/large")).json()["template"]["manifest"] == large


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


async def test_a_job_is_made_of_a_template(on_cluster, region):
    wanted = job(hang="true") | {"metadata": {"labels": None, "name": "other"}}
    wanted["spec"] |= {"parallelism": "{{n}}", "completions": "{{n}}"}
    wanted["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "{{text}}"}, {"name": "N", "value": "{{n}}"}]
    await create(on_cluster, manifest=wanted, parameters={"n": 2, "text": "default"})
    hostile = 'x","hostNetwork":true,"z":"y'

    answer = await on_cluster.post(f"{JOBS}/train", json={"name": "mine", "parameters": {"text": hostile}})
    [made] = await region.objects()

    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert body.keys() >= {
        "cluster_id",
        "region",
        "timestamp",
        "template",
        "job_name",
        "namespace",
        "success",
        "parameters_applied",
        "errors",
    }
    assert (body["template"], body["job_name"], body["namespace"], body["success"], body["errors"]) == (
        "train",
        "mine",
        "gco-jobs",
        True,
        None,
    )
    assert body["parameters_applied"] == {"n": 2, "text": hostile, "name": "mine"}
    assert body["uid"] == made["metadata"]["uid"]
    assert made["metadata"]["labels"]["gco.io/template"] == "train"
    assert made["metadata"]["annotations"]["gpufleet.io/template"] == "train@1"
    assert made["spec"]["parallelism"] == 2
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": hostile}, {"name": "N", "value": "2"}]
    assert "hostNetwork" not in made["spec"]["template"]["spec"]


async def test_what_the_cluster_refuses_is_told_as_every_error(on_cluster, region):
    await create(on_cluster, manifest=job(hang="true"), parameters={})
    region.fault(method="POST", path="/jobs", status=422)
    answer = await on_cluster.post(f"{JOBS}/train", json={"name": "mine"})
    body = answer.json()

    assert (answer.status_code, body["success"], body["job_name"]) == (400, False, "mine")
    assert [body["detail"]] == body["errors"] == ["Job gco-jobs/mine: a fault was injected here"]
    assert body["request_id"] == answer.headers["x-request-id"]


async def test_an_active_job_of_the_name_is_a_conflict(on_cluster):
    await create(on_cluster, manifest=job(hang="true"), parameters={})
    await on_cluster.post(f"{JOBS}/train", json={"name": "mine"})
    again = await on_cluster.post(f"{JOBS}/train", json={"name": "mine"})

    assert again.status_code == 409
    assert "gco-jobs/mine" in again.json()["detail"]


async def test_parameters_and_policy_are_told_at_once(on_cluster, region):
    bad = manifest(image="{{image}}", args=["--x={{x}}", "{{y}}"])
    await create(on_cluster, manifest=bad, parameters={})

    body = {"name": "Bad_Name", "parameters": {"x": {}, "z": 1, "image": "evil/miner"}}
    assert places(await on_cluster.post(f"{JOBS}/train", json=body)) == [
        "/parameters/x",
        "/parameters/y",
        "/parameters/z",
        "/name",
        f"{SPEC}/containers/0/image",
    ]
    body = {"name": "mine", "parameters": {"x": 1, "y": "a", "image": "evil/miner"}}
    assert places(await on_cluster.post(f"{JOBS}/train", json=body)) == [f"{SPEC}/containers/0/image"]
    body = {"name": "Bad_Name", "parameters": {"x": 1, "y": "a", "image": "pytorch/pytorch"}}
    assert places(await on_cluster.post(f"{JOBS}/train", json=body)) == ["/name"]
    body = {"name": 5, "namespace": "kube-system", "parameters": {"x": 1, "z": 1, "image": "evil/miner"}, "surplus": 1}
    assert places(await on_cluster.post(f"{JOBS}/train", json=body)) == [
        "/name",
        "/surplus",
        "/parameters/y",
        "/parameters/z",
        f"{SPEC}/containers/0/image",
        "/namespace",
    ]
    body = {"name": "mine", "surplus": 1, "parameters": {"x": 1, "y": "", "image": "evil/miner"}}
    assert places(await on_cluster.post(f"{JOBS}/train", json=body)) == ["/surplus", f"{SPEC}/containers/0/image"]
    assert await region.objects() == []


async def test_the_same_words_as_every_other_way_in(on_cluster):
    await create(on_cluster, manifest=manifest(image="{{image}}"), parameters={})
    queue = await on_cluster.post("/api/v1/queue/jobs", json={"target_region": "any", "manifest": manifest(image="evil/miner")})
    made = await on_cluster.post(f"{JOBS}/train", json={"name": "mine", "parameters": {"image": "evil/miner"}})

    told = [one | {"msg": one["msg"].removesuffix(" (from the parameter 'image')")} for one in made.json()["detail"]]
    assert told == queue.json()["detail"]


async def test_a_namespace_that_is_not_allowed_is_forbidden(on_cluster):
    await create(on_cluster)
    answer = await on_cluster.post(f"{JOBS}/train", json={"name": "mine", "namespace": "kube-system"})

    assert (answer.status_code, answer.json()["detail"]) == (403, "Namespace 'kube-system' not allowed. Allowed namespaces: ['gco-jobs']")


async def test_without_a_cluster_it_is_said(client):
    await create(client)
    answer = await client.post(f"{JOBS}/train", json={"name": "mine"})

    assert answer.status_code == 503
    assert "reaches no cluster" in answer.json()["detail"]


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
    return await client.post(f"{JOBS}/{name}", json={"name": job_name} | fields)


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


async def test_many_who_change_a_template_at_once_all_do(client):
    await create(client)
    changes = [{"manifest": manifest(), "parameters": {}, "description": str(number)} for number in range(12)]

    answers = await asyncio.gather(*(client.put(f"{TEMPLATES}/train", json=change) for change in changes))

    assert {answer.status_code for answer in answers} == {200}
    assert sorted(answer.json()["template"]["version"] for answer in answers) == list(range(2, 14))
