"""What pages of others can make a browser of this machine do to an API without identity sources."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from workers.api.local_only import LocalOnly


@pytest.fixture
async def client():
    app = FastAPI()

    @app.api_route("/", methods=["GET", "POST", "DELETE"])
    async def root() -> str:
        return "fine"

    app.add_middleware(LocalOnly)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:8080") as found:
        yield found


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8080", "localhost", "LOCALHOST:9000", "localhost.", "a.localhost:1", "[::1]", "[::1]:80", "127.9.9.9"],
)
async def test_this_machine_is_answered_by_any_of_its_names(client, host):
    assert (await client.post("/", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "0.0.0.0", "[::]", ""],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_name_that_others_can_point_here_is_not(client, host, method):
    answer = await client.request(method, "/", headers={"Host": host})

    assert answer.status_code == 421
    assert f"not for the host '{host}'" in answer.json()["detail"]
    assert "GPUFLEET_IDENTITY=keys" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "site", "status"),
    [
        ("POST", "cross-site", 403),
        ("DELETE", "cross-site", 403),
        ("GET", "cross-site", 200),
        ("POST", "same-origin", 200),
        ("POST", "none", 200),
    ],
)
async def test_pages_of_other_sites_change_nothing(client, method, site, status):
    assert (await client.request(method, "/", headers={"Sec-Fetch-Site": site})).status_code == status
