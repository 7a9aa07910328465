"""Over the wire: templates that can't be meant are refused, and what is made of one names the parameter that is to blame."""

from __future__ import annotations

import pytest

from tests.integration.api.conftest import manifest

TEMPLATES = "/api/v1/templates"
FROM = "/api/v1/jobs/from-template/train"


def with_parallelism(value):
    found = manifest()
    found["spec"]["parallelism"] = value
    return found


def problems(answer):
    assert answer.status_code == 422, answer.text
    return {problem["pointer"]: problem["msg"] for problem in answer.json()["detail"]}


@pytest.mark.parametrize(
    ("content", "pointers"),
    [
        ({"{{k}}": 1}, {"/manifest/apiVersion", "/manifest/kind"}),
        ({"kind": "{{kind}}"}, {"/manifest/apiVersion"}),
        (with_parallelism("{{ n"), {"/manifest/spec/parallelism"}),
        (with_parallelism("{{n}"), {"/manifest/spec/parallelism"}),
    ],
)
async def test_what_can_not_be_meant_is_refused(client, content, pointers):
    answer = await client.post(TEMPLATES, json={"name": "train", "manifest": content})

    assert problems(answer).keys() == pointers


@pytest.mark.parametrize("more", [{}, {"namespace": 5}])
async def test_a_value_that_does_not_fit_is_told_with_its_parameter(client, more):
    """`more`: where another field is wrong, this is told with it."""
    made = await client.post(TEMPLATES, json={"name": "train", "manifest": with_parallelism("{{n}}")})
    assert made.status_code == 201, made.text

    told = problems(await client.post(FROM, json={"name": "mine", "namespace": "gco-jobs", "parameters": {"n": "four"}} | more))

    assert told["/manifest/spec/parallelism"].endswith("must be an integer (from the parameter 'n')")
