"""The command against the API itself, so that what one sends and shows is what the other takes and tells."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest
import uvicorn
from standardwebhooks import Webhook as StandardWebhook
from structlog.testing import capture_logs

from shared.webhooks.urls import UrlRules
from tests.unit.webhooks.receivers import answering, receiving
from workers.api.app import create_app
from workers.api.core import build
from workers.cli.main import run


@pytest.fixture
async def gpufleet(aws, shared_settings, monkeypatch, capsys):
    """Runs a command against an API that may send to this machine; gives its exit code and the document that it wrote."""
    core = dataclasses.replace(await build(shared_settings, aws), webhook_urls=UrlRules(local=True))
    server = uvicorn.Server(uvicorn.Config(create_app(core), host="127.0.0.1", port=0, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(10):
        while not server.started:
            await asyncio.sleep(0.01)
    monkeypatch.setenv("GPUFLEET_API", f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    for name in ("GPUFLEET_KEY", "GPUFLEET_WEBHOOK_SECRET"):
        monkeypatch.delenv(name, raising=False)

    async def command(*arguments):
        capsys.readouterr()
        code = await asyncio.to_thread(run, ["webhooks", *arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    with capture_logs():  # the API's, which would be written between
        yield command
    server.should_exit = True
    await task


async def test_the_life_of_a_webhook(gpufleet):
    async with receiving(answering(body=b"thanks")) as receiver:
        code, made = await gpufleet("create", f"http://127.0.0.1:{receiver.port}/x", "-e", "job.failed", "-n", "gco-jobs")
        assert code == 0
        webhook_id = made["webhook"]["id"]
        code, rotated = await gpufleet("rotate", webhook_id, "--overlap", "1h")
        assert code == 0
        code, answer = await gpufleet("test", webhook_id)

    assert (code, answer["delivered"], answer["text"]) == (0, True, "thanks")
    [received] = receiver.received
    for secret in (made["secret"], rotated["secret"]):
        StandardWebhook(secret).verify(received.body, received.headers)
    assert (await gpufleet("test", webhook_id))[0] == 1  # nobody listens any more
    assert (await gpufleet("disable", webhook_id, "--reason", "gone"))[1]["disabled_reason"] == "gone"
    code, shown = await gpufleet("show", webhook_id)
    assert (code, [one["change"] for one in shown["history"]]) == (0, ["rotated", "disabled"])
    code, error = await gpufleet("redeliver", webhook_id, "--failed")
    assert (code, "enable it first" in error["error"]["message"]) == (4, True)
    assert (await gpufleet("enable", webhook_id))[1]["state"] == "enabled"
    assert await gpufleet("redeliver", webhook_id, "--failed", "--since", "2d") == (0, {"count": 0, "more": False})
    assert (await gpufleet("deliveries", webhook_id, "--state", "failed"))[1]["deliveries"] == []
    assert (await gpufleet("deliveries", webhook_id, "--state", "lost"))[0] == 2
    assert webhook_id in {one["id"] for one in (await gpufleet("list", "-n", "gco-jobs"))[1]["webhooks"]}
    assert (await gpufleet("delete", webhook_id))[0] == 0
    assert (await gpufleet("show", webhook_id))[0] == 3
