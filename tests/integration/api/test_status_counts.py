"""The counts in the status of the service: exact, and no reason to fail."""

from __future__ import annotations

import dataclasses

from shared.errors import UnavailableError
from shared.store.totals import Totals
from shared.webhooks.urls import UrlRules
from tests.integration.api.conftest import manifest, serving


async def status(client):
    answer = await client.get("/api/v1/status")
    assert answer.status_code == 200
    body = answer.json()
    return body["templates_count"], body["webhooks_count"], body["counts_known"]


async def test_status_counts_templates_and_webhooks(core):
    rules = UrlRules(resolve=lambda host, port: ["1.1.1.1"])
    async with serving(dataclasses.replace(core, webhook_urls=rules)) as client:
        assert await status(client) == (0, 0, True)
        for name in ("a", "b"):
            await client.post("/api/v1/templates", json={"name": name, "manifest": manifest()})
        await client.post("/api/v1/webhooks", json={"url": "https://example.com", "events": ["job.failed"]})
        assert await status(client) == (2, 1, True)
        await client.delete("/api/v1/templates/a")
        assert await status(client) == (1, 1, True)


class Away(Totals):
    async def of(self, nouns):
        raise UnavailableError("no answer")


async def test_status_is_told_without_the_table(shared_core):
    async with serving(dataclasses.replace(shared_core, totals=Away(shared_core.table))) as client:
        assert await status(client) == (0, 0, False)
