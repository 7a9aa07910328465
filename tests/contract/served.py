"""A whole region behind a real server in a thread of its own, with something of every sort in it, for requests that somebody makes up."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import httpx

from shared.aws import connect
from shared.costs.model import NodeUsage, Window
from shared.costs.usage_documents import HOUR, UsageDocument, document_key, encode, hour_of
from shared.identity.callers import Right
from shared.ids import RandomIds
from shared.metrics.snapshot import Snapshot
from shared.metrics.snapshots import Snapshots
from shared.settings import Settings, dead_letter_queue
from shared.store.bootstrap import bootstrap
from shared.store.deliveries import Deliveries
from shared.store.keys import Layout
from shared.store.rejections import Rejection
from shared.webhooks.deliveries import Delivery, DeliveryState
from shared.webhooks.urls import UrlRules
from tests.conftest import REGION, FleetResources, own_settings
from tests.integration.api.streaming import served
from tests.integration.api.test_cost import Measured
from tests.integration.region import job, running_region
from tests.unit.identity.builders import api_key
from workers.api import examples
from workers.api.cluster_access import ClusterAccess
from workers.api.core import Core, build

NAMESPACE = "gco-jobs"
_KEY_ID, _SECRET = "0" * 16, "0" * 64
KEY = f"gpf_{_KEY_ID}_{_SECRET}"
"""Of a caller who may do everything."""
NUMBER = 7
"""Of the event of the delivery that is known."""
_ADDRESS = "93.184.215.14"
"""What every host name means here; nobody is asked."""


_POD = {
    "metadata": {"labels": {"app": "train"}},
    "spec": {"containers": [{"name": "main", "image": "nginx", "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}]},
}
_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "train"},
    "spec": {"selector": {"matchLabels": {"app": "train"}}, "template": _POD},
}
_NEVER = {"max_spot_price": 0.0001, "spot_instance_type": "g5.xlarge"}
"""A price that keeps a job from being dispatched."""


@dataclass
class ServedRegion:
    """Where its API is, and the names of what stands in it, by what requests call it."""

    url: str
    settings: Settings
    core: Core
    loop: asyncio.AbstractEventLoop
    things: dict[str, str] = field(default_factory=dict)
    _sqs: Any = field(default_factory=lambda: boto3.client("sqs", region_name=REGION))

    def furnish(self) -> None:
        """See to it that there is one of every sort. What a request has taken away comes back."""
        with httpx.Client(base_url=self.url, timeout=30, headers={"Authorization": f"Bearer {KEY}"}) as client:
            client.post(f"/fleet/v1/regions/{REGION}/resume", json={}).raise_for_status()
            self._once(client)
            _put(client, "/api/v1/manifests", {"manifests": [job("train", logs="hello"), _DEPLOYMENT], "namespace": NAMESPACE})
            _put(client, "/api/v1/templates", examples.TEMPLATE | {"name": "train"})
            _put(client, "/fleet/v1/keys", {"name": "train", "rights": ["read"]})
            self._webhook(client)
            self._report(client)
            waiting = client.post("/api/v1/queue/jobs", json={"manifest": job("waits"), "target_region": REGION} | _NEVER)
            self.things["KNOWN-WAITING-JOB"] = waiting.raise_for_status().json()["job"]["job_id"]
            queue = self._sqs.get_queue_url(QueueName=dead_letter_queue(self.settings.submissions_queue))
            self.things["KNOWN-LETTER"] = self._sqs.send_message(QueueUrl=queue["QueueUrl"], MessageBody="{")["MessageId"]
            self.things["KNOWN-POD"] = _pod(client)

    def _once(self, client: httpx.Client) -> None:
        if "KNOWN-JOB" in self.things:
            return
        made = client.post("/api/v1/queue/jobs", json={"manifest": job("queued", logs="hello"), "target_region": REGION})
        self.things["KNOWN-QUEUE"] = self.settings.submissions_queue
        self.things["KNOWN-JOB"] = made.raise_for_status().json()["job"]["job_id"]
        path = f"/api/v1/queue/jobs/{self.things['KNOWN-JOB']}"
        _until(lambda: client.get(path).json()["job"]["status"] == "succeeded")

    def _webhook(self, client: httpx.Client) -> None:
        """A webhook that is enabled, has a secret, and a delivery to it that has failed."""
        path = "/api/v1/webhooks"
        if self.things.get("KNOWN-WEBHOOK") not in [one["id"] for one in client.get(path).json()["webhooks"]]:
            made = client.post(path, json={"url": "https://example.com/hook", "events": ["job.completed"], "secret": "a long secret"})
            self.things["KNOWN-WEBHOOK"] = made.raise_for_status().json()["webhook"]["id"]
        client.post(f"/fleet/v1/webhooks/{self.things['KNOWN-WEBHOOK']}/enable").raise_for_status()
        now = datetime.now(UTC)
        delivery = Delivery(
            webhook_id=self.things["KNOWN-WEBHOOK"],
            job_id=self.things["KNOWN-JOB"],
            number=NUMBER,
            type="job.completed",
            namespace=NAMESPACE,
            at=now,
            state=DeliveryState.FAILED,
            stamp="s",
            created_at=now,
            deadline=now,
            finished_at=now,
            reason="made up",
        )
        self.run(_refailed(Deliveries(self.core.table, Layout.of(self.settings)), delivery))

    def _report(self, client: httpx.Client) -> None:
        if "KNOWN-REPORT" not in self.things:
            made = client.post("/fleet/v1/costs/reports", json={"hours": 1})
            self.things["KNOWN-REPORT"] = made.raise_for_status().json()["allocation_key"]

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something on the loop of the region."""
        asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


def _put(client: httpx.Client, path: str, body: Any) -> None:
    answer = client.post(path, json=body)
    assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text


def _pod(client: httpx.Client) -> str:
    path = f"/api/v1/jobs/{NAMESPACE}/train/pods"
    _until(lambda: client.get(path).json()["count"])
    name: str = client.get(path).json()["pods"][0]["metadata"]["name"]
    return name


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the region doesn't come to what was asked of it")
        time.sleep(0.05)


@contextmanager
def region_served(endpoint: str, folder: Path) -> Iterator[ServedRegion]:
    """An API beside a cluster of its own, with workers that bring jobs to their end. Callers are known by their keys."""
    ready: list[ServedRegion] = []
    ended = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        settings = own_settings().model_copy(update={"regions": (REGION,), "identity": ("keys",)})
        async with connect(REGION, "dynamodb", "sqs", "s3", "secretsmanager") as aws:
            await bootstrap(aws, settings)
            async with running_region(FleetResources(settings=settings, aws=aws, endpoint=endpoint), folder) as region:
                await region.dispatcher()
                await region.observer()
                access = ClusterAccess(settings.model_copy(update={"kubeconfig": folder / "kubeconfig"}))
                core = await build(settings, aws, access=access)
                await _furnish(core)
                asked = asyncio.Event()
                loop = asyncio.get_running_loop()
                stop.append(lambda: loop.call_soon_threadsafe(asked.set))
                try:
                    urls = UrlRules(resolve=lambda host, port: [_ADDRESS])
                    async with served(replace(core, webhook_urls=urls, costs=Measured())) as found:
                        ready.append(ServedRegion(found.url, settings, core, loop))
                        await asked.wait()
                finally:
                    await access.close()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="served region", daemon=True)
    thread.start()
    _until(lambda: ready or ended.is_set())
    assert ready, "no region came up"
    try:
        yield ready[0]
    finally:
        stop[0]()
        thread.join(30)


async def _furnish(core: Core) -> None:
    """What no request makes: a key that is known beforehand, a message that became no job, a report of the schedule."""
    kept, _ = api_key("tests", rights=Right)
    digest = hashlib.sha256(_SECRET.encode()).hexdigest()
    await core.api_keys.put(kept.model_copy(update={"id": _KEY_ID, "digest": digest}))
    now = datetime.now(UTC)
    rejection = Rejection(id="known", reason="broken", message_id="known", queue="submissions", rejected_at=now, excerpt="{")
    await core.rejections.put(rejection)
    await Snapshots(core.objects).put(Snapshot(region=REGION, at=now, seconds=0.1))
    node = NodeUsage(uid="n", name="n", region=REGION, cluster=REGION, start=now - timedelta(days=8), instance_type="g5.xlarge", gpus=1)
    for hour in (hour_of(now) - HOUR, hour_of(now)):
        covered = [Window(hour, min(hour + HOUR, now))]
        usage = UsageDocument(
            version=1, region=REGION, cluster=REGION, observer="o", hour=hour, all_pods=True, covered=covered, nodes=[node], pods=[]
        )
        await core.objects.put(document_key(usage), encode(usage))
    assert core.costing is not None
    await core.costing.reporter(REGION).report(Window(hour_of(now) - HOUR, hour_of(now)))  # as the schedule does


async def _refailed(deliveries: Deliveries, delivery: Delivery) -> None:
    """A delivery that has failed, whatever became of it since."""
    standing = await deliveries.create(delivery)
    if standing.state is not DeliveryState.FAILED:
        await deliveries.write(standing, delivery.model_copy(update={"stamp": RandomIds().nonce()}))
