"""Every line of "Bad input" about a query or a path: a parameter that is wrong or means nothing, a path that leads nowhere."""

from __future__ import annotations

import httpx
import pytest

from tests.integration.api.bad_input import JOBS

pytestmark = pytest.mark.usefixtures("nothing_is_stored")


@pytest.fixture
def client(shared_client):
    return shared_client


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"cursor": "nonsense"}, ["query", "cursor"]),
        ({"cursor": "x" * 3000}, ["query", "cursor"]),
        ({"limit": "0"}, ["query", "limit"]),
        ({"limit": "1001"}, ["query", "limit"]),
        ({"limit": "ten"}, ["query", "limit"]),
        ({"status": "finished"}, ["query", "status"]),
        ({"target_region": "mars-north-1"}, ["query", "target_region"]),
    ],
)
async def test_a_bad_parameter_of_a_list_is_named(client: httpx.AsyncClient, params, place):
    answer = await client.get(JOBS, params=params)

    assert answer.status_code == 422
    assert [problem["loc"] for problem in answer.json()["detail"]] == [place]


@pytest.mark.parametrize(
    ("method", "path", "problems"),
    [
        ("GET", f"{JOBS}?bogus=1&region=eu-west-1", {"bogus": "cursor, limit, namespace, status, target_region", "region": "which has"}),
        ("GET", f"{JOBS}?limit=1&limit=2", {"limit": "given once"}),
        ("GET", f"{JOBS}?bogus=1&limit=0", {"bogus": "must be a parameter", "limit": "must be at least 1"}),
        ("GET", f"{JOBS}/x?bogus=1", {"bogus": "which has none"}),
        ("DELETE", f"{JOBS}/x?force=true", {"force": "which has reason"}),
        ("POST", "/api/v1/queue/poll?bogus=1", {"bogus": "which has limit"}),
        ("GET", "/fleet/v1/jobs/x?bogus=1", {"bogus": "which has none"}),
        ("GET", "/fleet/v1/jobs/x/logs?fellow=true", {"fellow": "container, execution, follow, pod, tail"}),
        ("GET", "/fleet/v1/rejections?bogus=", {"bogus": "cursor, limit"}),
        ("GET", "/fleet/v1/schemas/submission?bogus=1", {"bogus": "which has none"}),
    ],
)
async def test_a_parameter_that_means_nothing_is_named_with_those_that_do(client, method, path, problems):
    answer = await client.request(method, path)

    assert answer.status_code == 422
    found = {problem["loc"][1]: problem["msg"] for problem in answer.json()["detail"] if problem["loc"][0] == "query"}
    assert found.keys() == problems.keys()
    assert all(said in found[name] for name, said in problems.items())


@pytest.mark.parametrize("path", [f"{JOBS}/a%2Fb", "/fleet/v1/jobs/a/b/c", "/nowhere"])
async def test_a_path_that_is_none_is_named(client, path):
    answer = await client.get(path)

    assert answer.status_code == 404
    assert answer.json()["detail"] == f"Not Found: there is nothing at {path.replace('%2F', '/')}"
