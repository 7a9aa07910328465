"""Which cluster a configuration leads to, and as whom."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from shared.clusters.client import connect
from shared.errors import UnavailableError


@pytest.fixture
def kubeconfig(tmp_path: Path):
    def write(user) -> Path:
        path = tmp_path / "kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "eu-west-1",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "eu-west-1", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    return write


async def authorization(api) -> str | None:
    client = api._transport._client
    _, _, headers, _, _ = await client.param_serialize("GET", "/", auth_settings=["BearerToken"])
    return headers.get("authorization")


async def test_the_pool_is_as_large_as_asked(kubeconfig):
    async with connect(kubeconfig=kubeconfig({}), context="eu-west-1", pool_size=7) as api:
        assert api._transport._client.rest_client.maxsize == 7


async def test_a_cluster_that_is_not_there_is_unavailable(kubeconfig):
    async with connect(kubeconfig=kubeconfig({}), context="eu-west-1") as api:
        with pytest.raises(UnavailableError):
            await api.request("GET", "/version")


async def test_a_context_or_a_file_that_is_not_there_is_unavailable(kubeconfig, tmp_path):
    for path, context in ((kubeconfig({}), "mars"), (tmp_path / "nothing", None)):
        with pytest.raises(UnavailableError):
            async with connect(kubeconfig=path, context=context):
                pass


async def test_outside_a_cluster_there_is_no_service_account(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UnavailableError):
        async with connect(kubeconfig=None):
            pass


async def test_a_token_is_sent_and_the_file_left_as_it_was(kubeconfig):
    path = kubeconfig({"token": "t1"})
    before = path.read_bytes()
    async with connect(kubeconfig=path) as api:
        assert await authorization(api) == "Bearer t1"
    assert path.read_bytes() == before


async def test_a_token_of_a_plugin_is_renewed_when_it_expires(kubeconfig, tmp_path, monkeypatch):
    """A plugin such as `aws eks get-token`, whose tokens last for 15 minutes; this one counts how often it ran."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, pathlib\n"
        f"runs = pathlib.Path({str(tmp_path / 'runs')!r})\n"
        "count = len(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text('x' * count)\n"
        "status = {'token': f't{count}', 'expirationTimestamp': '2000-01-01T00:00:00Z' if count < 3 else '2999-01-01T00:00:00Z'}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', 'status': status}))\n"
    )
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)], "interactiveMode": "Never"}
    monkeypatch.setattr("shared.clusters.client.TOKEN_LOOK_SECONDS", 0.0)
    async with connect(kubeconfig=kubeconfig(json.loads(json.dumps({"exec": plugin})))) as api:
        assert [await authorization(api) for _ in range(4)] == ["Bearer t2", "Bearer t3", "Bearer t3", "Bearer t3"]


async def test_a_body_is_written_in_utf8(kubeconfig):
    """ "é" is two bytes then, and six as the library would write it: too many for an API server, of an object that etcd would store."""
    from aiohttp import web

    found = {}

    async def answer(request: web.BaseRequest) -> web.Response:
        found[request.headers["Content-Type"]] = await request.content.read()
        return web.json_response({})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    path = kubeconfig({})
    path.write_text(path.read_text().replace("http://127.0.0.1:1", f"http://127.0.0.1:{runner.addresses[0][1]}"))
    body = {"a": "é" * 600_000}
    try:
        async with connect(kubeconfig=path, context="eu-west-1") as api:
            for kind in ("application/json", "application/apply-patch+yaml", "application/json-patch+json"):
                await api.request("PATCH", "/x", body=body, content_type=kind)
    finally:
        await runner.cleanup()

    assert {kind: json.loads(data) for kind, data in found.items()} == dict.fromkeys(found, body)
    assert len(found) == 3
    assert all(len(data) < 1_200_100 for data in found.values())
