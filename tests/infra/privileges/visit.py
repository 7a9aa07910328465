"""A visit that leads to every call that a fleet makes of AWS and of its clusters, each step for the calls that nothing else leads to.

The steps ask as users do: the API, producers on the queue, operators of dead letters. What the emulator knows as its root stands for them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from aiobotocore.session import get_session
from aiohttp import web

from shared.clusters import names
from shared.clusters.eks import describe
from shared.clusters.scheduling import SINGLE_READS
from shared.costs.model import CapacityType, NodeUsage, Window
from shared.costs.usage_documents import UsageDocument, document_key, encode, hour_of
from shared.errors import UnavailableError
from shared.settings import dead_letter_queue
from shared.webhooks.endpoints import STRIKES
from tests.infra.fleet import ROOT, VISITOR, EnforcedFleet
from workers.local.demo.receiver import Receiver

SECONDS = 240.0
NAMESPACE = "gco-jobs"
NODES = "2xg5.12xlarge,1xg5.12xlarge:spot,1xg4ad.16xlarge,9xm5.4xlarge"
PODS = 24
"""So many that no nine of these machines have room for them."""
LARGE = 500_000
"""Characters of noise: more than a manifest may have in the table, compressed."""
Json = dict[str, Any]


class Visit:
    """A visitor of one fleet."""

    def __init__(self, fleet: EnforcedFleet, client: httpx.AsyncClient, receiver: Receiver, gone: Gone) -> None:
        self.fleet = fleet
        self.client = client
        self.receiver = receiver
        self.gone = gone
        self.bucket = "gpufleet"

    async def everything(self) -> None:
        """All of it."""
        await self.webhooks_are_made()
        await self.usage_of_an_hour_ago()
        async with asyncio.TaskGroup() as group:
            for step in (self.jobs, self.queue, self.dead_letters, self.keys_and_templates, self.manifests, self.reading, self.clusters):
                group.create_task(step())
            group.create_task(until(self._backlog_is_read, "what was put off for an endpoint that mends is told by both who deliver"))
        await self.wide()
        await self.what_is_refused()
        await self.what_is_in_the_way()
        await self.what_nobody_told()
        await self.costs()
        await self.webhooks_are_administered()
        await self.regions()
        await self.tour()

    async def ask(self, method: str, path: str, *, status: int = 200, **options: Any) -> Any:
        """One request of the API, which must be answered so."""
        answer = await self.client.request(method, path, **options)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:2000]}"
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    # Jobs

    async def submit(self, name: str, *, status: int = 201, noise: int = 0, manifest: Json | None = None, **fields: Any) -> str:
        """Submit a job through the API; its id."""
        body = {"manifest": manifest or a_job(name), "target_region": "any", "namespace": NAMESPACE, **fields}
        if noise:
            body["supporting"] = [noisy_config(name, noise), supporting(name)[1]]
        answer = await self.ask("POST", "/api/v1/queue/jobs", status=status, json=body)
        return str(answer["job"]["job_id"])

    async def until(self, job_id: str, *states: str) -> Json:
        """Ask until a job is in one of these states."""
        return await until(lambda: self._in(job_id, states), f"job {job_id} is {' or '.join(states)}")

    async def _in(self, job_id: str, states: tuple[str, ...]) -> Json | None:
        job: Json = await self.ask("GET", f"/fleet/v1/jobs/{job_id}")
        return job if job["state"] in states else None

    async def jobs(self) -> None:
        """Large manifests, logs that were kept, a release that only the observer makes, spot prices, limits of time, cancels."""
        await self.fault(method="PATCH", path="/jobs/unreleased", status=503, times=100)
        unreleased = [await self.submit("unreleased", noise=LARGE, target_region=region) for region in self.fleet.options.regions]
        for job_id in unreleased:
            await until(lambda job_id=job_id: self._in(job_id, ("pending",)), "the job is committed")
        for region in self.fleet.options.regions:
            self.fleet.kill(f"dispatcher-{region}-1")
        await self.no_faults()
        large = await self.submit("large", noise=LARGE)
        spot = await self.submit("spot", spot_instance_type="g5.12xlarge", max_spot_price=1.5)
        waits = await self.submit("waits", spot_instance_type="g5.12xlarge", max_spot_price=0.01, timeouts={"queue_seconds": 2})
        slow = await self.submit("slow", manifest=a_job("slow", duration=600), timeouts={"execution_seconds": 2})
        cancelled = [
            await self.submit("cancelled", manifest=a_job("cancelled", duration=600), target_region=region)
            for region in self.fleet.options.regions
        ]
        flaky = await self.submit("flaky", manifest=a_job("flaky", exit_code="1,0"), retry={"max_attempts": 2, "backoff_seconds": 1})
        for job_id in cancelled:
            await self.until(job_id, "running")
        await self.fleet.invoke("gpufleet-health", json.dumps({"task": "health"}))
        # A cluster that doesn't delete at once: the bell is put off.
        await self.fault(method="DELETE", path="/jobs/cancelled", status=503, retry_after=1, times=3)
        for job_id in cancelled:
            await self.ask("DELETE", f"/api/v1/queue/jobs/{job_id}")
        await self.ask("DELETE", f"/api/v1/queue/jobs/{spot}")
        for job_id, state in (
            (large, "succeeded"),
            *((one, "succeeded") for one in unreleased),
            (flaky, "succeeded"),
            (slow, "failed"),
            (waits, "failed"),
        ):
            await self.until(job_id, state)
        for job_id in cancelled:
            await self.until(job_id, "cancelled")
        await self.ask("GET", f"/fleet/v1/jobs/{large}/logs")
        await self.ask("GET", f"/fleet/v1/jobs/{large}/events")
        await self.ask("GET", f"/fleet/v1/jobs/{flaky}/executions")
        await self.ask("GET", "/api/v1/queue/jobs", params={"namespace": NAMESPACE, "status": "completed"})
        await self.ask("GET", "/api/v1/queue/jobs", params={"target_region": region})
        await self.ask("POST", "/api/v1/queue/poll", params={"limit": 5})

    async def what_is_refused(self) -> None:
        """A release that the cluster refuses: the dispatcher asks for a stop."""
        await self.fault(method="PATCH", path="/jobs/refused", status=403)
        for job_id in [await self.submit("refused", target_region=region) for region in self.fleet.options.regions]:
            await self.until(job_id, "failed")

    async def what_is_in_the_way(self) -> None:
        """What others of the fleet left behind under a name gives way, for dispatchers and for observers who do their work."""
        regions = self.fleet.options.regions
        for region in regions:
            job_id = await self.submit("owner", target_region=region)
            owner = (await self.until(job_id, "succeeded"))["executions"][-1]["object"]
            for name in ("leftover", "unsupported"):
                for kind in ("services", "configmaps"):
                    await self.on_cluster(region, "POST", f"/api/v1/namespaces/{NAMESPACE}/{kind}", json=left_behind(name, kind, owner))
        for job_id in [await self.submit("leftover", supporting=supporting("leftover"), target_region=region) for region in regions]:
            await self.until(job_id, "succeeded")
        # Answers that are lost: what was made is found, and applied over.
        for kind in ("services", "configmaps"):
            await self.fault(method="POST", path=f"/{kind}$", action="apply_then_drop")
        for job_id in [await self.submit("twice", supporting=supporting("twice"), target_region=region) for region in regions]:
            await self.until(job_id, "succeeded")
        await self.no_faults()
        await self.fault(method="POST", path="/(services|configmaps)$", status=503, times=100)
        ids = [await self.submit("unsupported", supporting=supporting("unsupported"), target_region=region) for region in regions]
        for job_id in ids:
            await self.until(job_id, "pending")
        for region in regions:
            self.fleet.kill(f"dispatcher-{region}-1")
        await self.no_faults()
        for job_id in ids:
            await self.until(job_id, "succeeded")

    async def what_nobody_told(self) -> None:
        """An object that nobody committed, of a job that has ended; one deleted without its pods; and a pass of dispatch by hand."""
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
        for region in self.fleet.options.regions:
            job_id = await self.submit("ended", target_region=region)
            ended = (await self.until(job_id, "succeeded"))["executions"][-1]["object"]["name"]
            await self.on_cluster(region, "POST", path, json=stray(await self.on_cluster(region, "GET", f"{path}/{ended}")))
            await until(lambda region=region, ended=ended: self._is_gone(region, f"{path}/{ended}-stray"), "a stray object is deleted")
            job_id = await self.submit("left", manifest=a_job("left", duration=600), target_region=region)
            left = (await self.until(job_id, "running"))["executions"][-1]["object"]["name"]
            await self.on_cluster(region, "DELETE", f"{path}/{left}", params={"propagationPolicy": "Orphan"})
            await self.until(job_id, "failed")
        region = self.fleet.options.regions[0]
        with self.fleet.paused(f"dispatcher-{region}-1"):
            job_id = await self.submit("polled", target_region=region, supporting=supporting("polled"))
            await self.ask("POST", "/api/v1/queue/poll", params={"limit": 5})
        await self.until(job_id, "succeeded")

    async def on_cluster(self, region: str, method: str, path: str, **options: Any) -> Any:
        """Ask a cluster as somebody who isn't of the fleet."""
        async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {VISITOR}"}) as clusters:
            answer = await clusters.request(method, f"http://127.0.0.1:{self.fleet.layout.cluster_ports[region]}{path}", **options)
            assert answer.is_success, answer.text
            return answer.json()

    async def _is_gone(self, region: str, path: str) -> bool:
        try:
            await self.on_cluster(region, "GET", path)
        except AssertionError as error:
            return "NotFound" in str(error)
        return False

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

    async def _is(self, job_id: str, field: str, value: Any) -> bool:
        return bool((await self.ask("GET", f"/fleet/v1/jobs/{job_id}"))[field] == value)

    async def queue(self) -> None:
        """Messages: one that is sent twice, a pointer to a large one, a pointer to nothing, one that means nothing."""
        job = {"manifest": a_job("queued"), "target_region": "any", "idempotency_key": "twice", "reference": "queued"}
        large = {**job, "idempotency_key": "large", "supporting": [noisy_config("queued", LARGE)]}
        await asyncio.to_thread(self._put, "submissions/large.json", json.dumps(large).encode())
        for body in (job, job, _pointer("submissions/large.json", self.bucket), _pointer("submissions/none.json", self.bucket)):
            await asyncio.to_thread(self.send, "gpufleet-submissions", json.dumps(body))
        await asyncio.to_thread(self.send, "gpufleet-submissions", "no JSON")
        await until(self._rejected, "two messages are rejected")

    async def _rejected(self) -> bool:
        found = (await self.ask("GET", "/fleet/v1/rejections"))["rejections"]
        for one in found:
            await self.ask("GET", f"/fleet/v1/rejections/{one['id']}")
        return len(found) >= 2

    def _put(self, key: str, data: bytes) -> None:
        with self.fleet.client("s3") as s3:
            s3.put_object(Bucket=self.bucket, Key=key, Body=data)

    def send(self, queue: str, body: str) -> None:
        """Put a message on a queue, as a producer does."""
        with self.fleet.client("sqs") as sqs:
            sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"], MessageBody=body)

    async def dead_letters(self) -> None:
        """Of every queue's dead letters one is sent back, where its worker finds that it means nothing, and then all are discarded."""
        queues = [one["queue"] for one in (await self.ask("GET", "/fleet/v1/dead-letters"))["queues"]]
        await asyncio.gather(*(self._dead_letters(queue) for queue in queues))

    async def _dead_letters(self, queue: str) -> None:
        path = f"/fleet/v1/dead-letters/{queue}"
        await asyncio.to_thread(self.send, dead_letter_queue(queue), "it means nothing")
        (letter,) = [one for one in (await self.ask("GET", path))["dead_letters"] if one["body"] == "it means nothing"]
        await self.ask("GET", f"{path}/{letter['id']}")
        await self.ask("POST", f"{path}/redrive", json={"message_ids": [letter["id"]]})
        if "scrapes" not in queue:  # which nobody reads where scrapes are called by a schedule
            await until(lambda: self._is_back(path, letter["id"]), f"{queue} has its dead letter back")
        await self.ask("POST", f"{path}/discard", json={"all": True})

    async def _is_back(self, path: str, message_id: str) -> bool:
        found = (await self.ask("GET", path))["dead_letters"]
        return any(one["body"] == "it means nothing" and one["id"] != message_id for one in found)

    async def keys_and_templates(self) -> None:
        """A key of a caller; a template too large for the table, its second version, a Job of it."""
        await self.ask("POST", "/fleet/v1/keys", status=201, json={"name": "visitor", "rights": ["read"], "namespaces": [NAMESPACE]})
        await self.ask("GET", "/fleet/v1/keys")
        await self.ask("DELETE", "/fleet/v1/keys/visitor")
        manifest = a_job("{{name}}")
        manifest["metadata"]["annotations"] = {"noise": noise(230_000)}
        manifest["spec"]["template"]["metadata"]["annotations"]["noise"] = noise(230_000)
        await self.ask("POST", "/api/v1/templates", status=201, json={"name": "visit", "manifest": manifest})
        await self.ask("PUT", "/api/v1/templates/visit", json={"manifest": a_job("{{name}}")})
        await self.ask("GET", "/api/v1/templates/visit", params={"version": 1})
        await self.ask("GET", "/api/v1/templates")
        await self.ask("POST", "/api/v1/jobs/from-template/visit", status=201, json={"name": "of-visit", "namespace": NAMESPACE})
        await self.ask("DELETE", "/api/v1/templates/visit")

    async def manifests(self) -> None:
        """Every kind that may be applied directly: made, made again as it stands, changed, looked at, deleted."""
        for manifest in KINDS:
            about = {"api_version": manifest["apiVersion"], "kind": manifest["kind"]}
            path = f"/api/v1/manifests/{NAMESPACE}/{manifest['metadata']['name']}"
            changed = {**manifest, "metadata": {**manifest["metadata"], "labels": {"changed": "yes"}}}
            for body in (manifest, manifest, changed) if manifest["kind"] not in {"Job", "Pod"} else (manifest,):
                await self.ask("POST", "/api/v1/manifests", json={"manifests": [body], "namespace": NAMESPACE})
            await self.ask("GET", path, params=about)
            await self.ask("DELETE", path, params=about)

    async def wide(self) -> None:
        """A Job whose pods are on so many machines that they are listed and not read one by one."""
        manifest = a_job("wide", duration=600)
        manifest["spec"] |= {"parallelism": PODS, "completions": PODS}
        container = {**_POD["containers"][0], "resources": {"limits": {"cpu": "14", "memory": "64Mi"}}}
        manifest["spec"]["template"]["spec"] = {**_POD, "containers": [container]}
        await self.ask("POST", "/api/v1/manifests", json={"manifests": [manifest], "namespace": NAMESPACE})
        await until(self._is_spread, "the pods of a Job are on many machines")
        await self.ask("DELETE", f"/api/v1/jobs/{NAMESPACE}/wide")

    async def _is_spread(self) -> bool:
        found = (await self.ask("GET", f"/api/v1/jobs/{NAMESPACE}/wide/pods"))["pods"]
        return len({one["node"]["name"] for one in found if one["node"]}) > SINGLE_READS

    async def reading(self) -> None:
        """What is measured and told: GPUs, CloudWatch, health, the policy."""
        await until(self._scraped, "GPUs are scraped")
        for path in ("/fleet/v1/metrics/plan", "/fleet/v1/health", "/metrics", "/api/v1/policy", "/api/v1/status", "/fleet/v1/regions"):
            await self.ask("GET", path)
        for by in ("region", "region,namespace", "region,namespace,job_id"):
            await self.ask("GET", "/fleet/v1/metrics/range", params={"measure": "gpu_utilization", "by": by})
        await self.ask("GET", "/fleet/v1/metrics/instant", params={"measure": "gpu_power", "by": "region"})

    async def _scraped(self) -> bool:
        return bool((await self.ask("GET", "/fleet/v1/metrics/gpus"))["gpus"])

    async def clusters(self) -> None:
        """Where the API and the scrapes find clusters of EKS. The emulator has some, that nothing runs in."""
        for worker in ("api", "metrics"):
            credentials = await asyncio.to_thread(self.fleet.credentials, worker)
            for region in self.fleet.options.regions:
                async with get_session().create_client(
                    "eks",
                    region_name=region,
                    endpoint_url=self.fleet.layout.aws_endpoint,
                    aws_access_key_id=credentials.key,
                    aws_secret_access_key=credentials.secret,
                    aws_session_token=credentials.token,
                ) as eks:
                    with pytest.raises(UnavailableError, match="no certificates"):
                        await describe(eks, name="gpufleet", region=region)

    # Costs

    async def usage_of_an_hour_ago(self) -> None:
        """What an observer would have told of the hour before this one, so that windows of the schedule are over: of a spot machine too."""
        for region in self.fleet.options.regions:
            document = usage_of(region, hour_of(datetime.now(UTC)) - timedelta(hours=1))
            await asyncio.to_thread(self._put, document_key(document), encode(document))

    async def costs(self) -> None:
        """The reports of that hour by a message, and what is read of them."""
        await asyncio.to_thread(self.send, "gpufleet-tasks", json.dumps({"task": "cost_window"}))
        found = await until(self._reports, "reports of the schedule are written")
        await self.ask("GET", f"/fleet/v1/costs/reports/{found[0]['key']}")
        begin = hour_of(datetime.now(UTC)) - timedelta(hours=1)
        await self.ask("GET", "/fleet/v1/costs", params={"from": begin.isoformat(), "by": "job"})
        await self.ask("GET", "/api/v1/cost/status")

    async def _reports(self) -> list[Json]:
        return list((await self.ask("GET", "/api/v1/cost/reports"))["reports"])

    # Webhooks

    async def webhooks_are_made(self) -> None:
        """One that takes everything, two that are gone, one of them only at a second try, one that mends, and one where nobody is."""
        events = ["job.queued", "job.started", "job.completed", "job.failed", "job.cancelled"]
        ends = [f"{self.gone.url}/{path}" for path in ("gone", "later", "mends")]
        for url in (self.receiver.url, *ends, "http://127.0.0.1:9/nobody"):
            heard = ["job.cancelled"] if url.endswith("/later") else events
            body = {"url": url, "events": heard, "namespace": NAMESPACE, "secret": self.receiver.secret}
            await self.ask("POST", "/api/v1/webhooks", status=201, json=body)

    async def webhooks_are_administered(self) -> None:
        """Tried, disabled, enabled, given another secret, told again, deleted."""
        listed = (await self.ask("GET", "/fleet/v1/webhooks", params={"namespace": NAMESPACE}))["webhooks"]
        await self.ask("GET", "/fleet/v1/webhooks")
        taking, refusing = (next(one["id"] for one in listed if one["url"].endswith(end)) for end in ("/hook", "/nobody"))
        await until(lambda: self._told(taking), "a delivery was taken")
        await until(lambda: self._disabled(2), "both that are gone are disabled")
        await self.ask("POST", f"/fleet/v1/webhooks/{taking}/test")
        await self.ask("POST", f"/fleet/v1/webhooks/{refusing}/disable", json={"reason": "nobody is there"})
        await until(lambda: self._told(refusing, "failed"), "deliveries of a disabled webhook have failed")
        await self.ask("POST", f"/fleet/v1/webhooks/{refusing}/enable")
        await self.ask("POST", f"/fleet/v1/webhooks/{refusing}/redeliver", json={})
        first = (await self._told(taking))[0]
        path = f"/fleet/v1/webhooks/{taking}/deliveries/{first['job_id']}/{first['number']}"
        await self.ask("GET", path)
        await self.ask("POST", f"{path}/redeliver")
        await self.ask("POST", f"/fleet/v1/webhooks/{taking}/rotate", json={})
        for webhook in listed:
            await self.ask("DELETE", f"/api/v1/webhooks/{webhook['id']}")

    async def _backlog_is_read(self) -> bool:
        readers = {one.caller for one in self.fleet.asked() if one.resource.endswith("/index/by_namespace")}
        if {"gpufleet-webhooks", "gpufleet-webhooks-sweep"} <= readers:
            return True
        await self.submit("told")  # so that there is something to tell
        return False

    async def _disabled(self, count: int) -> bool:
        found = (await self.ask("GET", "/fleet/v1/webhooks"))["webhooks"]
        return sum(one["disabled_at"] is not None for one in found) >= count

    async def _told(self, webhook: str, state: str = "delivered") -> list[Json]:
        found = await self.ask("GET", f"/fleet/v1/webhooks/{webhook}/deliveries", params={"state": state})
        return list(found["deliveries"])

    # The rest

    async def regions(self) -> None:
        """A region is drained, a job that waits there moved, and resumed."""
        moved = await self.submit("moved", spot_instance_type="g5.12xlarge", max_spot_price=0.01)
        first = (await self.ask("GET", f"/fleet/v1/jobs/{moved}"))["region"]
        (second,) = (region for region in self.fleet.options.regions if region != first)
        await self.ask("POST", f"/fleet/v1/regions/{first}/drain", json={"reason": "a visit"})
        await until(lambda: self._is(moved, "region", second), "the job is moved")
        await self.ask("GET", "/fleet/v1/regions")
        await self.ask("POST", f"/fleet/v1/regions/{first}/resume", json={})
        await self.ask("DELETE", f"/api/v1/queue/jobs/{moved}")

    async def tour(self) -> None:
        """Every operation of GCO's door, by its own script."""
        environment = os.environ | self.fleet.aws_env | {"GPUFLEET_API": str(self.client.base_url)}
        process = await asyncio.create_subprocess_exec(
            ROOT / "docs" / "api-tour.sh", env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        told, _ = await process.communicate()
        assert process.returncode == 0, told.decode()


class Gone:
    """A server whose path `/gone` is gone, and `/later` too after a first try that it asks to make again in five seconds.

    `/mends` fails so often that it is spared, and then is well.
    """

    def __init__(self) -> None:
        self._tried = False
        self._failures = STRIKES
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Gone:
        app = web.Application()
        app.router.add_post("/{path}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == "/later" and not self._tried:
            self._tried = True
            return web.Response(status=503, headers={"Retry-After": "5"})
        if request.path == "/mends":
            self._failures -= 1
            return web.Response(status=503 if self._failures >= 0 else 204)
        return web.Response(status=410)


async def until(ask: Callable[[], Awaitable[Any]], what: str, *, seconds: float = SECONDS) -> Any:
    """Ask until the answer is true, and give it."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := await ask()):
                await asyncio.sleep(0.2)
            return found
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}") from None


def a_job(name: str, **steering: Any) -> Json:
    """A small Job; keyword arguments steer the simulation."""
    annotations = {f"simulation.gpufleet.io/{key.replace('_', '-')}": str(value) for key, value in ({"duration": 0.5} | steering).items()}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": annotations}, "spec": _POD}},
    }


def supporting(name: str) -> list[Json]:
    """A ConfigMap and a Service."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}
    return [config, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": _PORTS}]


def left_behind(name: str, kind: str, owner: Json) -> Json:
    """What another job of the fleet left behind under a name, whose Job has ended."""
    (found,) = (one for one in supporting(name) if f"{one['kind'].lower()}s" == kind)
    labels = {names.MANAGED: "true", names.JOB_ID: "01900000-0000-7000-8000-000000000000", names.EXECUTION: "1"}
    owned = {"apiVersion": "batch/v1", "kind": "Job", "name": owner["name"], "uid": owner["uid"]}
    return {**found, "metadata": {"name": name, "labels": labels, "ownerReferences": [owned]}}


def stray(found: Json) -> Json:
    """An object like the one of an execution, which nobody committed."""
    metadata = {name: found["metadata"][name] for name in ("labels", "annotations")}
    metadata["annotations"] = {**metadata["annotations"], names.RELEASED: "no"}
    template = found["spec"]["template"]
    labels = {name: value for name, value in template["metadata"].get("labels", {}).items() if "controller-uid" not in name}
    kept = {**template, "metadata": {**template["metadata"], "labels": {k: v for k, v in labels.items() if "job-name" not in k}}}
    spec = {"suspend": True, "backoffLimit": 0, "template": kept}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**metadata, "name": f"{found['metadata']['name']}-stray"}, "spec": spec}


def noise(characters: int) -> str:
    """Text that doesn't compress, always the same."""
    return base64.b64encode(random.Random(characters).randbytes(characters * 3 // 4)).decode()


def noisy_config(name: str, characters: int) -> Json:
    """A ConfigMap of so many characters."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-noise"}, "data": {"noise": noise(characters)}}


def usage_of(region: str, hour: datetime) -> UsageDocument:
    """Two machines for one hour."""
    nodes = [
        NodeUsage(
            uid=f"visit-{capacity}",
            name=f"visit-{capacity}",
            instance_type="g5.12xlarge",
            capacity_type=capacity,
            zone=f"{region}a",
            cores=Decimal(48),
            memory_bytes=192 * 2**30,
            gpus=4,
            region=region,
            cluster=region,
            start=hour,
            end=None,
        )
        for capacity in (CapacityType.ON_DEMAND, CapacityType.SPOT)
    ]
    return UsageDocument(
        version=1,
        region=region,
        cluster=region,
        observer="visit",
        hour=hour,
        all_pods=True,
        covered=[Window(hour, hour + timedelta(hours=1))],
        nodes=nodes,
        pods=[],
    )


def _pointer(key: str, bucket: str) -> Json:
    return {"s3": {"bucket": bucket, "key": key}}


_PORTS: Json = {"selector": {"app": "visit"}, "ports": [{"port": 80}]}
_LIMITS = {"cpu": "10m", "memory": "16Mi"}
_POD: Json = {
    "restartPolicy": "Never",
    "containers": [
        {"name": "main", "image": "busybox:1.36", "command": ["true"], "resources": {"limits": {"cpu": "10m", "memory": "16Mi"}}}
    ],
}


def _kind(api_version: str, kind: str, spec: Json) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": f"visit-{kind.lower()}"}, **spec}


def _workload(kind: str, **more: Any) -> Json:
    pod = {"metadata": {"labels": {"app": "visit"}}, "spec": {**_POD, "restartPolicy": "Always"}}
    return _kind("apps/v1", kind, {"spec": {"selector": {"matchLabels": {"app": "visit"}}, "template": pod, **more}})


KINDS: tuple[Mapping[str, Any], ...] = (
    _kind("v1", "ConfigMap", {"data": {"a": "b"}}),
    _kind("v1", "Service", {"spec": {"selector": {"app": "visit"}, "ports": [{"port": 80}]}}),
    _kind("v1", "Pod", {"spec": _POD}),
    _kind("batch/v1", "Job", {"spec": a_job("any")["spec"]}),
    _kind("batch/v1", "CronJob", {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": a_job("any")["spec"]}}}),
    _workload("Deployment"),
    _workload("StatefulSet", serviceName="visit"),
    _workload("DaemonSet"),
    _kind("trainer.kubeflow.org/v1alpha1", "TrainJob", {"spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 1}}}),
)
