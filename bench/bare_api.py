"""`python -m bench.bare_api PORT`: the least that an HTTP endpoint can do which stores a job and rings: what a submission is compared with.

FastAPI and aiobotocore as they come, with room for as many connections as ours: a dictionary comes in, one transaction is written, one
message is sent, a dictionary goes out. The transaction has the items, sizes and conditions of a real submission, recorded once at the
start; for each request only keys and ids are put into it. Nothing is checked, hashed, compressed, logged or told back, no caller is
known and no rate is limited.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from aiobotocore.config import AioConfig
from fastapi import FastAPI

from bench.workload import submission
from shared.aws import CONNECTIONS, Aws, connect
from shared.ids import RandomIds
from shared.jobs.fields import JobFields
from shared.settings import Settings
from workers.assembly import assemble
from workers.submitting import way_in

_CONFIG = AioConfig(max_pool_connections=CONNECTIONS)


class _Recorder:
    """A DynamoDB client that keeps what it is to write."""

    def __init__(self) -> None:
        self.actions: list[dict[str, Any]] = []

    async def transact_write_items(self, *, TransactItems: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 # boto's name
        self.actions = TransactItems
        return {}


async def _recorded(aws: Aws, settings: Settings) -> list[dict[str, Any]]:
    """The actions of a real submission."""
    recorder = _Recorder()
    core = await assemble(settings, Aws(dynamodb=recorder, sqs=aws.sqs))
    wanted = JobFields.model_validate(submission()).request(scope="local", idempotency_key=None, submitted_by="local")
    await way_in(core).submission.submit(wanted)
    return recorder.actions


def _of(job_id: str, actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same actions for another job."""
    text = {"S": job_id}
    fresh = []
    for action in actions:
        if "Put" in action:
            put = action["Put"]
            item = put["Item"] | {"pk": {"S": f"JOB#{job_id}"}}
            for name in ("id", "job_id"):
                if name in item:
                    item[name] = text
            action = {"Put": put | {"Item": item}}
        fresh.append(action)
    return fresh


def create_app(settings: Settings) -> FastAPI:
    """The endpoint, over clients that are made at its start."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with connect(settings.control_region, "dynamodb", "sqs", config=_CONFIG) as aws:
            queue = await aws.sqs.get_queue_url(QueueName=settings.dispatch_queue(settings.regions[0]))
            app.state.parts = (aws, await _recorded(aws, settings), queue["QueueUrl"])
            yield

    app = FastAPI(lifespan=lifespan)
    ids = RandomIds()

    @app.post("/api/v1/queue/jobs", status_code=201)
    async def submit(body: dict[str, Any]) -> dict[str, str]:
        aws, actions, queue = app.state.parts
        job_id = ids.job()
        await aws.dynamodb.transact_write_items(TransactItems=_of(job_id, actions))
        ring = json.dumps({"kind": "ready", "job_id": job_id})
        await aws.sqs.send_message(QueueUrl=queue, MessageBody=ring, MessageGroupId=body["namespace"])
        return {"message": "Job queued", "job_id": job_id}

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


async def main(port: int) -> None:
    config = uvicorn.Config(create_app(Settings()), host="127.0.0.1", port=port, log_config=None, access_log=False)
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
