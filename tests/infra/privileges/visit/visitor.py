"""Who visits a fleet: asks its API, sends messages, breaks its clusters, and waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx

from tests.infra.fleet import VISITOR, EnforcedFleet
from tests.infra.privileges.visit.objects import a_job, noisy_config, supporting
from workers.local.demo.receiver import Receiver

if TYPE_CHECKING:
    from tests.infra.privileges.visit.webhooks import Gone


SECONDS = 240.0

NAMESPACE = "gco-jobs"


class Visitor:
    """Who asks a fleet as users do: over the API, by messages, as an operator, as somebody of a cluster."""

    def __init__(self, fleet: EnforcedFleet, client: httpx.AsyncClient, receiver: Receiver, gone: Gone) -> None:
        self.fleet = fleet
        self.client = client
        self.receiver = receiver
        self.gone = gone
        self.bucket = "gpufleet"

    async def ask(self, method: str, path: str, *, status: int = 200, **options: Any) -> Any:
        """One request of the API, which must be answered so."""
        answer = await self.client.request(method, path, **options)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:2000]}"
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    async def submit(self, name: str, *, status: int = 201, noise: int = 0, manifest: dict[str, Any] | None = None, **fields: Any) -> str:
        """Submit a job through the API; its id."""
        body = {"manifest": manifest or a_job(name), "target_region": "any", "namespace": NAMESPACE, **fields}
        if noise:
            body["supporting"] = [noisy_config(name, noise), supporting(name)[1]]
        answer = await self.ask("POST", "/api/v1/queue/jobs", status=status, json=body)
        return str(answer["job"]["job_id"])

    async def until(self, job_id: str, *states: str) -> dict[str, Any]:
        """Ask until a job is in one of these states."""
        return await until(lambda: self.is_in(job_id, states), f"job {job_id} is {' or '.join(states)}")

    async def is_in(self, job_id: str, states: tuple[str, ...]) -> dict[str, Any] | None:
        job: dict[str, Any] = await self.ask("GET", f"/fleet/v1/jobs/{job_id}")
        return job if job["state"] in states else None

    async def on_cluster(self, region: str, method: str, path: str, **options: Any) -> Any:
        """Ask a cluster as somebody who isn't of the fleet."""
        async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {VISITOR}"}) as clusters:
            answer = await clusters.request(method, f"http://127.0.0.1:{self.fleet.layout.cluster_ports[region]}{path}", **options)
            assert answer.is_success, answer.text
            return answer.json()

    async def fault(self, **fault: Any) -> None:
        """Something goes wrong on every cluster."""
        await self._faults("POST", json=fault)

    async def no_faults(self) -> None:
        """Nothing does any more."""
        await self._faults("DELETE")

    async def _faults(self, method: str, **options: Any) -> None:
        async with httpx.AsyncClient(trust_env=False) as clusters:
            for port in self.fleet.layout.cluster_ports.values():
                (await clusters.request(method, f"http://127.0.0.1:{port}/_faults", **options)).raise_for_status()

    def put(self, key: str, data: bytes) -> None:
        with self.fleet.client("s3") as s3:
            s3.put_object(Bucket=self.bucket, Key=key, Body=data)

    def send(self, queue: str, body: str) -> None:
        """Put a message on a queue, as a producer does."""
        with self.fleet.client("sqs") as sqs:
            sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"], MessageBody=body)


async def until(ask: Callable[[], Awaitable[Any]], what: str, *, seconds: float = SECONDS, every: float = 0.2) -> Any:
    """Ask until the answer is true, and give it."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := await ask()):
                await asyncio.sleep(every)
            return found
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}") from None
