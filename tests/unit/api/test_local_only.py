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


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_pages_of_other_origins_get_and_change_nothing(client, method, site, status):
    assert (await client.request(method, "/", headers={"Sec-Fetch-Site": site})).status_code == status


@pytest.mark.parametrize(
    ("method", "mode", "status"),
    [
        ("GET", {"Sec-Fetch-Mode": "navigate"}, 200),
        ("GET", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ("GET", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ("GET", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ("POST", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403),
    ],
)
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_link_to_this_machine_can_be_followed(client, method, site, mode, status):
    assert (await client.request(method, "/", headers={"Sec-Fetch-Site": site} | mode)).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8080", 200),
        ("HTTP://127.0.0.1:8080", 200),
        ("https://evil.com", 403),
        ("https://127.0.0.1:8080", 403),
        ("http://127.0.0.1:9090", 403),
        ("http://127.0.0.1", 403),
        ("http://localhost:8080", 403),
        ("null", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_an_origin_must_be_this_servers_own(client, method, origin, status):
    answer = await client.request(method, "/", headers={"Origin": origin})

    assert answer.status_code == (405 if (method, status) == ("OPTIONS", 200) else status)
    assert "access-control-allow-origin" not in answer.headers
