"""Submissions that are to be refused, and the places of what is wrong with them."""

from __future__ import annotations

import json

JOBS = "/api/v1/queue/jobs"
SPEC = "/manifest/spec/template/spec"


async def refused(client, body, *, status=422, headers=None) -> list[dict]:
    """Send a body that is to be refused; its problems, each of which has a place, a message and what stands there."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await client.post(JOBS, content=content, headers={"Content-Type": "application/json"} | (headers or {}))
    assert answer.status_code == status, answer.text
    problems = answer.json()["detail"]
    for problem in problems:
        assert problem.keys() >= {"type", "loc", "msg", "input", "pointer"}
        assert problem["msg"]
    return problems


def places(problems):
    return [problem["pointer"] for problem in problems]
