"""Producers of messages, and operators of dead letters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from shared.settings import dead_letter_queue
from tests.infra.privileges.visit.objects import LARGE, a_job, noisy_config
from tests.infra.privileges.visit.visitor import Visitor, until


async def queue(visitor: Visitor) -> None:
    """Messages: one that is sent twice, a pointer to a large one, a pointer to nothing, one that means nothing."""
    job = {"manifest": a_job("queued"), "target_region": "any", "idempotency_key": "twice", "reference": "queued"}
    large = {**job, "idempotency_key": "large", "supporting": [noisy_config("queued", LARGE)]}
    await asyncio.to_thread(visitor.put, "submissions/large.json", json.dumps(large).encode())
    for body in (job, job, _pointer("submissions/large.json", visitor.bucket), _pointer("submissions/none.json", visitor.bucket)):
        await asyncio.to_thread(visitor.send, "gpufleet-submissions", json.dumps(body))
    await asyncio.to_thread(visitor.send, "gpufleet-submissions", "no JSON")
    await until(lambda: _rejected(visitor), "two messages are rejected")


async def _rejected(visitor: Visitor) -> bool:
    found = (await visitor.ask("GET", "/fleet/v1/rejections"))["rejections"]
    for one in found:
        await visitor.ask("GET", f"/fleet/v1/rejections/{one['id']}")
    return len(found) >= 2


async def dead_letters(visitor: Visitor) -> None:
    """Of every queue's dead letters one is sent back, where its worker finds that it means nothing, and then all are discarded."""
    queues = [one["queue"] for one in (await visitor.ask("GET", "/fleet/v1/dead-letters"))["queues"]]
    await asyncio.gather(*(_dead_letters(visitor, queue) for queue in queues))


async def _dead_letters(visitor: Visitor, queue: str) -> None:
    path = f"/fleet/v1/dead-letters/{queue}"
    await asyncio.to_thread(visitor.send, dead_letter_queue(queue), "it means nothing")
    (letter,) = [one for one in (await visitor.ask("GET", path))["dead_letters"] if one["body"] == "it means nothing"]
    await visitor.ask("GET", f"{path}/{letter['id']}")
    await visitor.ask("POST", f"{path}/redrive", json={"message_ids": [letter["id"]]})
    if "scrapes" not in queue:  # which nobody reads where scrapes are called by a schedule
        await until(lambda: _is_back(visitor, path, letter["id"]), f"{queue} has its dead letter back")
    await visitor.ask("POST", f"{path}/discard", json={"all": True})


async def _is_back(visitor: Visitor, path: str, message_id: str) -> bool:
    found = (await visitor.ask("GET", path))["dead_letters"]
    return any(one["body"] == "it means nothing" and one["id"] != message_id for one in found)


def _pointer(key: str, bucket: str) -> dict[str, Any]:
    return {"s3": {"bucket": bucket, "key": key}}
