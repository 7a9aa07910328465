"""However much is wrong with a request: its answer is short, says how much more there is, and costs no more than it has to."""

from __future__ import annotations

import json
import re
import time

import pytest

from shared.errors import MAX_PROBLEMS
from shared.store import cursors
from tests.integration.api.conftest import manifest, submission

JOBS = "/api/v1/queue/jobs"
MANY = 20_000
JSON = {"Content-Type": "application/json"}
OF_PYTHON = re.compile(
    r"instance of|[Dd]ictionary|\blist\b|\bList\b|\btuple\b|\bNone\b|\bTrue\b|\bFalse\b|callable|Decimal|\bstr\b|\bint\b"
)


@pytest.fixture
def client(shared_client):
    return shared_client


def many(value=1):
    return {f"k{number}": value for number in range(MANY)}


def template(**fields):
    return {"name": "t", "manifest": manifest()} | fields


async def test_parameters_of_the_query_are_counted_and_looked_at_once(client):
    await client.get("/api/v1/jobs?x=1")
    began = time.process_time()
    answer = await client.get("/api/v1/jobs?" + "&".join(f"x{number}=1" for number in range(8000)))

    assert time.process_time() - began < 1.0
    [problem] = answer.json()["detail"]
    assert (problem["loc"], problem["msg"]) == (["query"], "must have at most 100 parameters, and has 8000")


async def test_a_hundred_parameters_are_told_one_by_one(client):
    answer = await client.get("/api/v1/jobs?" + "&".join(f"x{number}=1" for number in range(100)))

    assert len(answer.json()["detail"]) == 100


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        (JOBS, submission(**many()), f"must have no fields but .*, and has {MANY} others, such as 'k0'"),
        (JOBS, submission(retry=many()), f"must have no fields but .*, and has {MANY} others"),
        (JOBS, submission(labels=many()), "at most 2048 bytes"),
        (JOBS, submission(labels={f"bad key {number}": 1 for number in range(500)}), "more problems, which are not told one by one"),
        ("/api/v1/templates", template(parameters=many()), "at most 1000 items"),
        (
            "/api/v1/templates",
            template(parameters={f"k{number}": 1 for number in range(1000)}),
            "and 900 more problems, which are not told one by one",
        ),
        ("/api/v1/webhooks", {"url": "https://a.example", "events": ["x"] * MANY}, "at most 100 items"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_answer_is_short_however_much_is_wrong(client, path, body, told):
    answer = await client.post(path, content=json.dumps(body), headers=JSON)

    problems = answer.json()["detail"]
    assert answer.status_code == 422
    assert len(problems) <= MAX_PROBLEMS + 1
    assert len(answer.content) < 40_000
    assert any(re.search(told, problem["msg"]) for problem in problems), problems


async def test_the_last_entry_says_how_many_more_there_are(client):
    body = template(parameters={f"k{number}": 1 for number in range(1000)})
    problems = (await client.post("/api/v1/templates", content=json.dumps(body), headers=JSON)).json()["detail"]

    assert [problem["pointer"] for problem in problems[:2]] == ["/parameters/k0", "/parameters/k1"]
    assert problems[-1] == {
        "type": "too_many_problems",
        "loc": ["body"],
        "msg": "and 900 more problems, which are not told one by one",
        "input": None,
        "pointer": "",
        "ctx": {"more": 900},
    }


async def test_a_body_of_too_many_values_is_refused_before_it_is_read(client):
    """It isn't even JSON, which nobody finds out."""
    answer = await client.post(JOBS, content="[" + "1," * 400_000, headers=JSON)

    assert [one["msg"] for one in answer.json()["detail"]] == ["must hold at most 100000 values"]


async def test_commas_in_texts_are_no_values(client):
    answer = await client.post(JOBS, json=submission(spot_instance_type='a\\",' * 120_000))

    assert "values" not in answer.text


async def test_a_deep_place_with_long_keys_has_a_short_pointer(client):
    deep = 1
    for _ in range(40):
        deep = {"k" * 1000 + str(len(json.dumps(deep))): deep, "a": "\0"}
    answer = await client.post(JOBS, content=json.dumps(submission(manifest=deep)), headers=JSON)

    assert len(answer.content) < 500_000
    assert all(len(problem["pointer"]) <= 2048 for problem in answer.json()["detail"])


def operations(client):
    document = client._transport.app.openapi()
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict)
    ]


async def test_what_was_asked_for_is_never_sent_back_whole(client):
    long = "a" * 15_000
    for method, path, _ in [*operations(client), ("GET", "/nowhere/{x}", {}), ("BREW", "/api/v1/jobs/{a}/{b}", {})]:
        if "{" in path:
            asked = re.sub(r"\{\w+\}", long, path)
            answer = await client.request(method, asked, **({"content": b"{}", "headers": JSON} if method in {"POST", "PUT"} else {}))
            assert len(answer.content) < 4000, (method, path, answer.text[:200])
    for asked in (f"/api/v1/jobs?{long}=1", f"{JOBS}?namespace={long}", f"{JOBS}?cursor={long}", f"/api/v1/jobs?namespace={long}"):
        answer = await client.get(asked)
        assert (answer.status_code >= 400, len(answer.content) < 2000) == (True, True), answer.text[:200]


@pytest.mark.parametrize("second", ["one", "two"])
async def test_a_header_that_means_something_once_comes_once(client, second):
    headers = [("Content-Type", "application/json"), ("Idempotency-Key", "one"), ("idempotency-key", second)]
    answer = await client.post(JOBS, content=json.dumps(submission()), headers=headers)

    [problem] = answer.json()["detail"]
    assert (problem["loc"], problem["msg"]) == (["header", "Idempotency-Key"], "must be given once")
    assert problem["pointer"] == "/Idempotency-Key"


async def test_a_header_that_is_a_list_may_come_in_parts(client):
    job = (await client.post(JOBS, json=submission())).json()["job"]["job_id"]
    headers = [("Accept", "text/html"), ("Accept", "text/event-stream"), ("Last-Event-ID", "nonsense")]
    answer = await client.get(f"/fleet/v1/jobs/{job}/logs?follow=true", headers=headers)

    [problem] = answer.json()["detail"]
    assert problem["loc"] == ["header", "Last-Event-ID"]
    assert problem["msg"].startswith("Last-Event-ID must be")


@pytest.mark.parametrize("query", ["reason=a%00b", "reason=%00"])
async def test_texts_outside_the_body_keep_the_rules_of_bodies(client, query):
    job = (await client.post(JOBS, json=submission())).json()["job"]["job_id"]
    answer = await client.delete(f"{JOBS}/{job}?{query}")

    [problem] = answer.json()["detail"]
    assert (answer.status_code, problem["loc"], problem["msg"]) == (422, ["query", "reason"], "must not contain a NUL character")
    assert (await client.get(f"{JOBS}/{job}")).json()["job"]["status"] == "queued"


@pytest.mark.parametrize("charset", ["latin-1", '"utf-16"', "nonsense", "ISO-8859-1"])
async def test_a_body_that_says_that_it_is_not_utf_8_is_refused(client, charset):
    answer = await client.post(JOBS, content=json.dumps(submission()), headers={"Content-Type": f"application/json; charset={charset}"})

    [problem] = answer.json()["detail"]
    assert (answer.status_code, problem["loc"]) == (422, ["header", "Content-Type"])
    assert "UTF-8" in problem["msg"]


@pytest.mark.parametrize(
    "said", ["application/json; charset=UTF-8", 'application/json;charset="utf-8"', "application/json; charset=us-ascii"]
)
async def test_a_body_may_say_that_it_is_utf_8(client, said):
    answer = await client.post(JOBS, content=json.dumps(submission(priority=101)), headers={"Content-Type": said})

    assert [problem["pointer"] for problem in answer.json()["detail"]] == ["/priority"]


async def test_no_rule_speaks_of_python(client):
    document = client._transport.app.openapi()
    seen = 0
    for method, path, operation in operations(client):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        told = content["schema"].get("anyOf", [content["schema"]])[0]  # of a body that may be left out, the first
        schema = document["components"]["schemas"][told["$ref"].rpartition("/")[2]]
        for value in (None, True, 1, 1.5, "x", [], {}, [None], [1], {"x": None}):
            body = dict.fromkeys(schema["properties"], value)
            answer = await client.request(method, re.sub(r"\{\w+\}", "x", path), content=json.dumps(body), headers=JSON)
            for problem in answer.json()["detail"] if answer.status_code == 422 else ():
                seen += 1
                assert not OF_PYTHON.search(problem["msg"]), (path, value, problem)
    assert seen > 100


async def test_a_price_that_is_no_number_is_named_as_such(client):
    [problem] = (await client.post(JOBS, json=submission(max_spot_price="1", spot_instance_type="g5.xlarge"))).json()["detail"][:1]

    assert (problem["pointer"], problem["msg"]) == ("/max_spot_price", "must be a number")


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (JOBS, "Invalid queue cursor: it must be the next_cursor of another page"),
        *((path, cursors.INVALID) for path in ("/api/v1/templates", "/api/v1/webhooks", "/fleet/v1/rejections")),
    ],
)
async def test_a_cursor_is_told_of_in_words_that_fit_its_list(client, path, rule):
    [problem] = (await client.get(path, params={"cursor": "x"})).json()["detail"]

    assert (problem["pointer"], problem["msg"]) == ("/cursor", rule)
