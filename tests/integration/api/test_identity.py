"""Who may call, and what: keys over the wire, from their making to their end."""

from __future__ import annotations

import re
from dataclasses import replace

import httpx
import pytest

from shared.errors import UnavailableError
from shared.jobs.submission import JobRequest
from tests.integration.api.conftest import manifest, serving, submission
from tests.unit.identity.builders import api_key
from workers.api.core import build

JOBS = "/api/v1/queue/jobs"
KEYS = "/fleet/v1/keys"
EVERYTHING = ("read", "submit", "admin")


@pytest.fixture
async def core(aws, shared_settings, tmp_path):
    """A fleet with two namespaces, whose API knows keys."""
    policy = tmp_path / "policy.json"
    policy.write_text('{"allowed_namespaces": ["gco-jobs", "other"]}')
    return await build(shared_settings.model_copy(update={"identity": ("keys",), "policy_file": policy}), aws)


@pytest.fixture
async def client(core):
    async with serving(core) as found:
        yield found


@pytest.fixture
def key(core, request):
    """Writes a key as an administrator would make it; gives the header of its bearer."""
    made = []

    async def make(*rights, namespaces=None, name=None, **more):
        kept, text = api_key(name or f"k{len(made)}-{core.settings.table[-8:]}-{id(request)}", rights=rights, namespaces=namespaces, **more)
        await core.api_keys.put(kept)
        made.append(kept)
        return {"Authorization": f"Bearer {text}"}

    return make


async def submit(client, who, **fields):
    answer = await client.post(JOBS, json=submission(**fields), headers=who)
    assert answer.status_code == 201, answer.text
    return answer.json()["job"]


async def test_a_request_without_a_key_is_told_what_is_missing(client):
    nothing = await client.get(JOBS)
    wrong = await client.get(JOBS, headers={"Authorization": "Bearer gpf_" + "0" * 16 + "_" + "0" * 64})
    other = await client.get(JOBS, headers={"Authorization": "Basic Z3BmOng="})
    twice = await client.get(JOBS, headers=[("Authorization", "Bearer a"), ("Authorization", "Bearer b")])

    assert [one.status_code for one in (nothing, wrong, other, twice)] == [401] * 4
    assert nothing.headers["www-authenticate"] == "Bearer"
    assert wrong.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert "expected is an API key" in nothing.json()["detail"]
    assert nothing.json().keys() == {"detail", "request_id"}


async def test_while_the_table_is_away_nobody_is_refused_for_good(client, core, monkeypatch):
    async def away(*_):
        raise UnavailableError("throttled", retry_after=3)

    monkeypatch.setattr(core.api_keys, "get", away)
    answer = await client.get(JOBS, headers={"Authorization": "Bearer gpf_" + "0" * 16 + "_" + "0" * 64})

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "3")
    assert answer.json().keys() == {"detail", "request_id"}


async def operations(client):
    for path, methods in (await client.get("/openapi.json")).json()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), re.sub(r"\{[^}]*\}", "x", path), operation


OPEN = {"/healthz", "/readyz", "/api/v1/health"}


async def test_every_operation_takes_a_caller_with_a_right_for_it(client, key):
    """One that forgot to ask for a right would serve everybody with a key."""
    powerless = await key()
    async for method, path, operation in operations(client):
        bare = await client.request(method, path, json={})
        with_key = await client.request(method, path, json={}, headers=powerless)

        assert (bare.status_code in {200, 503}) if path in OPEN else bare.status_code == 401, (method, path)
        assert (with_key.status_code in {200, 503}) if path in OPEN else with_key.status_code == 403, (method, path)
        if path not in OPEN:
            assert {"401", "403", "429"} <= operation["responses"].keys(), (method, path)
            assert operation["security"] == [{"key": []}], (method, path)


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/docs/files/swagger-ui.css", "/healthz", "/metrics"])
async def test_the_description_and_the_probes_are_open(client, path):
    assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/docs/", "/docs/file", "/healthz/x", "//healthz", "/openapi.json/x", "/docs/../fleet/v1/keys"]
)
async def test_what_else_there_is_nobody_is_told_without_a_key(client, path):
    assert (await client.get(httpx.URL("http://fleet", raw_path=path.encode()))).status_code == 401


async def test_a_reader_reads_and_a_submitter_submits(client, key):
    reader, submitter = await key("read"), await key("submit")
    job = await submit(client, submitter)

    read = await client.get(f"{JOBS}/{job['job_id']}", headers=reader)
    assert read.json()["job"]["submitted_by"].startswith("key:k1")
    assert (await client.get(f"{JOBS}/{job['job_id']}", headers=submitter)).status_code == 403
    refused = await client.post(JOBS, json=submission(), headers=reader)
    assert refused.status_code == 403
    assert "takes the right 'submit', and the caller has read" in refused.json()["detail"]
    assert (await client.delete(f"{JOBS}/{job['job_id']}", headers=reader)).status_code == 403
    assert (await client.post("/api/v1/queue/poll", headers=reader)).status_code == 403

    assert (await client.delete(f"{JOBS}/{job['job_id']}", headers=submitter)).status_code == 200
    events = (await client.get(f"/fleet/v1/jobs/{job['job_id']}/events", headers=reader)).json()["events"]
    assert events[-1]["by"] == job["submitted_by"]


async def test_a_namespace_that_is_not_the_callers_is_not_there(client, key):
    everywhere = await key("read", "submit")
    here = await key("read", "submit", namespaces=("other",))
    foreign, own = await submit(client, everywhere), await submit(client, everywhere, namespace="other")

    for method, path in [
        ("GET", f"{JOBS}/{foreign['job_id']}"),
        ("DELETE", f"{JOBS}/{foreign['job_id']}"),
        *(("GET", f"/fleet/v1/jobs/{foreign['job_id']}{part}") for part in ("", "/events", "/executions", "/logs")),
    ]:
        hidden = await client.request(method, path, headers=here)
        missing = await client.request(method, path.replace(foreign["job_id"], foreign["job_id"][:-4] + "0000"), headers=here)
        assert (hidden.status_code, missing.status_code) == (404, 404), path
        assert hidden.json()["detail"] == missing.json()["detail"].replace(foreign["job_id"][:-4] + "0000", foreign["job_id"])
    assert (await client.get(f"{JOBS}/{own['job_id']}", headers=here)).status_code == 200
    assert (await client.get(f"{JOBS}/{foreign['job_id']}", headers=everywhere)).json()["job"]["status"] == "queued"

    refused = await client.post(JOBS, json=submission(), headers=here)
    assert (refused.status_code, refused.json()["detail"][:34]) == (403, "Namespace 'gco-jobs' not allowed f")


async def test_a_list_holds_the_callers_namespaces_only(client, key):
    everywhere = await key("read", "submit")
    here = await key("read", namespaces=("other",))
    nowhere = await key("read", namespaces=("forgotten",))
    foreign = {(await submit(client, everywhere))["job_id"] for _ in range(3)}
    own = {(await submit(client, everywhere, namespace="other"))["job_id"] for _ in range(3)}

    first = (await client.get(JOBS, params={"limit": 2}, headers=here)).json()
    rest = (await client.get(JOBS, params={"limit": 1000, "cursor": first["next_cursor"]}, headers=here)).json()
    listed = [job for page in (first, rest) for job in page["jobs"]]

    assert {job["namespace"] for job in listed} == {"other"}
    assert own <= {job["job_id"] for job in listed}
    assert foreign <= {job["job_id"] for job in (await client.get(JOBS, params={"limit": 1000}, headers=everywhere)).json()["jobs"]}
    assert (await client.get(JOBS, headers=nowhere)).json()["jobs"] == []
    assert (await client.get(JOBS, params={"namespace": "gco-jobs"}, headers=here)).status_code == 403
    with_other_cursor = await client.get(JOBS, params={"cursor": first["next_cursor"]}, headers=everywhere)
    assert with_other_cursor.status_code == 422


async def test_idempotency_keys_of_callers_are_apart(client, key):
    one, two = await key("submit"), await key("submit", namespaces=("gco-jobs",))
    first = await client.post(JOBS, json=submission(), headers=one | {"Idempotency-Key": "same"})
    again = await client.post(JOBS, json=submission(), headers=one | {"Idempotency-Key": "same"})
    other = await client.post(JOBS, json=submission(), headers=two | {"Idempotency-Key": "same"})

    assert [one.status_code for one in (first, again, other)] == [201, 200, 201]
    assert other.json()["job"]["job_id"] != first.json()["job"]["job_id"] == again.json()["job"]["job_id"]


async def test_dead_letters_rejections_and_passes_are_for_administrators_of_everything(client, key):
    administrator = await key("admin")
    bound = await key(*EVERYTHING, namespaces=("other",))
    for path in ("/fleet/v1/rejections", "/fleet/v1/dead-letters"):
        assert (await client.get(path, headers=administrator)).status_code == 200
        refused = await client.get(path, headers=bound)
        assert (refused.status_code, "concerns all namespaces" in refused.json()["detail"]) == (403, True)
    assert (await client.post("/api/v1/queue/poll", headers=bound)).status_code == 403


async def make(client, who, name, /, **fields):
    return await client.post(KEYS, json={"name": name, "rights": ["read"]} | fields, headers=who)


async def test_a_key_from_its_making_to_its_end(client, core, key):
    administrator = await key(*EVERYTHING)
    made = await make(client, administrator, "ci", rights=["submit", "read"], namespaces=["other"], expires_in_seconds=3600)
    body = made.json()

    assert made.status_code == 201
    assert (body["name"], body["rights"], body["namespaces"]) == ("ci", ["read", "submit"], ["other"])
    who = {"Authorization": f"Bearer {body['key']}"}
    assert (await submit(client, who, namespace="other"))["submitted_by"] == "key:ci"

    listed = (await client.get(KEYS, headers=administrator)).json()["keys"]
    (told,) = [one for one in listed if one["name"] == "ci"]
    assert told == {name: value for name, value in body.items() if name != "key"}
    assert body["key"].rpartition("_")[2] not in str(listed)

    assert (await make(client, administrator, "ci")).status_code == 409
    revoked = await client.delete(f"{KEYS}/ci", headers=administrator)
    assert (revoked.status_code, revoked.json()["id"]) == (200, body["id"])
    assert (await client.delete(f"{KEYS}/{body['id']}", headers=administrator)).status_code == 404
    async with serving(core) as elsewhere:
        assert (await elsewhere.get(JOBS, headers=who)).status_code == 401
    assert (await make(client, administrator, "ci")).status_code == 201
    await client.delete(f"{KEYS}/ci", headers=administrator)


async def test_nobody_makes_a_key_that_may_more_than_he(client, key):
    bound = await key("admin", "read", namespaces=("other",))
    fine = await make(client, bound, "fine", namespaces=["other"])

    assert fine.status_code == 201
    assert [
        (await make(client, bound, "wider", **fields)).status_code
        for fields in ({}, {"namespaces": ["gco-jobs", "other"]}, {"namespaces": ["other"], "rights": ["submit"]})
    ] == [403, 403, 403]
    everywhere = await key(*EVERYTHING)
    assert (await make(client, everywhere, "wide")).status_code == 201
    names = {one["name"] for one in (await client.get(KEYS, headers=bound)).json()["keys"]}
    assert "fine" in names
    assert "wide" not in names
    assert (await client.delete(f"{KEYS}/wide", headers=bound)).status_code == 404
    for name in ("fine", "wide"):
        assert (await client.delete(f"{KEYS}/{name}", headers=everywhere)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": "Not Good"}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": "a" * 64}, "/name"),
        ({"rights": []}, "/rights"),
        ({"rights": ["everything"]}, "/rights/0"),
        ({"namespaces": []}, "/namespaces"),
        ({"namespaces": ["gco-job"]}, "/namespaces/0"),
        ({"expires_in_seconds": 0}, "/expires_in_seconds"),
        ({"expires_in_seconds": 1e12}, "/expires_in_seconds"),
        ({"expires": "90d"}, "/expires"),
    ],
)
async def test_what_is_wrong_with_a_wanted_key_is_named(client, key, fields, pointer):
    answer = await make(client, await key(*EVERYTHING), "x", **fields)

    assert (answer.status_code, answer.json()["detail"][0]["pointer"]) == (422, pointer)


@pytest.mark.parametrize("name", ["nothing", "a" * 3000, "%00", "%F0%9F%92%A5", "0" * 16])
async def test_an_unknown_key_is_not_found_whatever_it_is_called(client, key, name):
    assert (await client.delete(f"{KEYS}/{name}", headers=await key("admin"))).status_code == 404


async def test_the_last_administrator_cannot_be_revoked_where_keys_are_all_there_is(fleet_resources):
    fleet = await build(fleet_resources.settings.model_copy(update={"identity": ("keys",)}), fleet_resources.aws)
    kept, text = api_key("root", rights=EVERYTHING)
    await fleet.api_keys.put(kept)
    root = {"Authorization": f"Bearer {text}"}
    async with serving(fleet) as client:
        await make(client, root, "reader")
        refused = await client.delete(f"{KEYS}/root", headers=root)
        assert (refused.status_code, "'root' is the last with the right 'admin'" in refused.json()["detail"]) == (409, True)

        assert (await make(client, root, "next", rights=["admin"])).status_code == 201
        assert (await client.delete(f"{KEYS}/root", headers=root)).status_code == 200

    async with serving(replace(fleet, settings=fleet.settings.model_copy(update={"identity": ()}))) as local:
        assert (await local.delete(f"{KEYS}/next")).status_code == 200


async def test_what_is_counted_of_all_is_not_for_a_caller_of_some_namespaces(client, key):
    everywhere, here = await key("read", "submit"), await key("read", namespaces=("other", "forgotten"))
    await submit(client, everywhere)

    refused = await client.get("/api/v1/queue/stats", headers=here)
    assert (refused.status_code, "concerns all namespaces" in refused.json()["detail"]) == (403, True)
    assert (await client.get("/api/v1/queue/stats", headers=everywhere)).status_code == 200
    health = await client.get("/fleet/v1/health", headers=here)
    assert (health.status_code, "concerns all namespaces" in health.json()["detail"]) == (403, True)
    assert (await client.get("/fleet/v1/health", headers=everywhere)).status_code == 200

    await client.post("/api/v1/templates", json={"name": "counted", "manifest": manifest()}, headers=everywhere)
    status = (await client.get("/api/v1/status", headers=here)).json()
    whole = (await client.get("/api/v1/status", headers=everywhere)).json()
    assert (status["allowed_namespaces"], status["environment"]["allowed_namespaces"]) == (["other"], "other")
    assert (status["templates_count"], status["webhooks_count"], status["counts_known"]) == (0, 0, False)
    assert (whole["allowed_namespaces"], whole["environment"]["allowed_namespaces"]) == (["gco-jobs", "other"], "gco-jobs,other")
    assert (whole["templates_count"] >= 1, whole["counts_known"]) == (True, True)


async def test_without_an_identity_source_everybody_is_the_local_administrator(core):
    settings = core.settings.model_copy(update={"identity": ()})
    async with serving(replace(core, settings=settings)) as client:
        job = await submit(client, {})

    assert job["submitted_by"] == "local"
    replayed = JobRequest(manifest=manifest(), region="us-east-1", namespace="gco-jobs")
    assert replayed.idempotency_scope == "api"
