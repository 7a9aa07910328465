"""The two ways in, as their users use them: the API over HTTP requests to its app, and messages on the submissions queue."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from bench.stage import NAMESPACE, REGION, Fleet, aws_environment, environment
from bench.workload import manifest
from shared.aws import connect
from workers.api.app import create_app
from workers.api.core import build

BATCH = 10
"""Messages in one SendMessageBatch; SQS takes no more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submit:
    """Submits one job on each call; `how` says by which way."""

    client: httpx.AsyncClient

    how = "POST /api/v1/queue/jobs"

    async def __call__(self) -> str:
        """The job's id."""
        answer = await self.client.post("/api/v1/queue/jobs", json=fields())
        answer.raise_for_status()
        return str(answer.json()["job"]["job_id"])


def fields() -> dict[str, Any]:
    """What a producer says of a job, the same in both ways."""
    return {"manifest": manifest(), "target_region": REGION, "namespace": NAMESPACE}


@asynccontextmanager
async def api(fleet: Fleet) -> AsyncIterator[Submit]:
    """The API's own app over the fleet's tapped clients, called as a server calls it (ASGI), without a socket."""
    app = create_app(await build(fleet.settings, fleet.clients))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://api", timeout=60) as client:
        yield Submit(client=client)


async def produce(fleet: Fleet, endpoint: str, jobs: int) -> None:
    """Drop jobs on the submissions queue, ten in a request, as a producer with any AWS client would."""
    with environment(aws_environment(endpoint)):
        clients = connect(REGION, "sqs")
        async with clients as aws:
            url = (await aws.sqs.get_queue_url(QueueName=fleet.settings.submissions_queue))["QueueUrl"]
            for start in range(0, jobs, BATCH):
                entries = [{"Id": str(number), "MessageBody": json.dumps(fields())} for number in range(start, min(start + BATCH, jobs))]
                await aws.sqs.send_message_batch(QueueUrl=url, Entries=entries)
