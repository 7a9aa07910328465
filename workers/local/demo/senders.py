"""The two ways in, as users take them: HTTP requests, and a producer with plain boto3."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx

from workers.local.demo.parcels import Parcel

_TOGETHER = 6
_TRIES = 20


@dataclass(kw_only=True)
class Sent:
    """What the ways in answered."""

    jobs: dict[int, str] = field(default_factory=dict)
    """Job id by number of parcel, of those sent through the API."""
    refused: dict[int, int] = field(default_factory=dict)
    """HTTP status by number of parcel."""
    replayed: dict[int, str] = field(default_factory=dict)
    """The id that the second sending under an idempotency key gave, by number of parcel."""


class ApiSender:
    """Submits through the API, a few at a time."""

    def __init__(self, client: httpx.AsyncClient, sent: Sent) -> None:
        self._client = client
        self._sent = sent
        self._room = asyncio.Semaphore(_TOGETHER)

    async def send(self, parcels: Sequence[Parcel]) -> None:
        """Submit all of them."""
        async with asyncio.TaskGroup() as group:
            for parcel in parcels:
                group.create_task(self._send(parcel))

    async def _send(self, parcel: Parcel) -> None:
        async with self._room:
            response = await self._post(parcel)
            if response.is_error:
                self._sent.refused[parcel.number] = response.status_code
                return
            self._sent.jobs[parcel.number] = response.json()["job"]["job_id"]
            if parcel.idempotency_key is not None:
                again = await self._post(parcel)
                self._sent.replayed[parcel.number] = again.json()["job"]["job_id"] if again.status_code == HTTPStatus.OK else "none"

    async def _post(self, parcel: Parcel) -> httpx.Response:
        """Send it; and send it again, as a client should, where the API says that it can't take it just now."""
        key = parcel.idempotency_key
        headers = {} if key is None else {"Idempotency-Key": key}
        for _ in range(_TRIES):
            response = await self._client.post("/api/v1/queue/jobs", json=dict(parcel.body), headers=headers)
            if response.status_code not in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
                break
            await asyncio.sleep(0.2)
        return response


async def drop_on_queue(parcels: Sequence[Parcel], environment: Mapping[str, str], queue: str) -> None:
    """Put messages on the submissions queue, one after the other, in a thread beside the event loop."""
    await asyncio.to_thread(_drop, [parcel.message() for parcel in parcels], environment, queue)


def _drop(messages: Sequence[str], environment: Mapping[str, str], queue: str) -> None:
    import boto3

    session: Any = boto3.session.Session(
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    )
    sqs = session.client("sqs", endpoint_url=environment["AWS_ENDPOINT_URL"])
    try:
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        for message in messages:
            sqs.send_message(QueueUrl=url, MessageBody=message)
    finally:
        sqs.close()
