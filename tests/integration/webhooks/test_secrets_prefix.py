"""Secrets that stay where they were made, though the table has another name since it was restored."""

from __future__ import annotations

from standardwebhooks import Webhook as StandardWebhook

from shared.secrets import Secrets
from tests.integration.api.conftest import serving
from tests.integration.webhooks.fleet import running_fleet, until
from tests.unit.webhooks.receivers import answering
from workers.api.core import build

SECRET = "correct horse battery staple"


async def test_api_and_webhooks_find_secrets_under_the_prefix_and_not_under_the_tables_name(fleet_resources):
    prefix = f"{fleet_resources.settings.table}-before"
    async with running_fleet(fleet_resources, secrets_prefix=prefix) as fleet:
        receiver = await fleet.receiver(answering("200 OK"))
        wanted = {"url": f"http://127.0.0.1:{receiver.port}/", "events": ["job.queued"], "namespace": "gco-jobs", "secret": SECRET}
        async with serving(await build(fleet.core.settings, fleet.aws)) as client:
            answer = await client.post("/api/v1/webhooks", json=wanted)
        assert answer.status_code == 201, answer.text
        name = f"webhooks/{answer.json()['webhook']['id']}"
        assert await Secrets(fleet.aws.secretsmanager, prefix=prefix).get(name) is not None
        assert await Secrets(fleet.aws.secretsmanager, prefix=fleet.core.settings.table).get(name) is None

        await fleet.worker()
        await fleet.job()

        async def told():
            return receiver.received

        [received] = await until(told)
        StandardWebhook(SECRET.encode()).verify(received.body, received.headers)
