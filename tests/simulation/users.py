"""Those who use the fleet: clients of the API, producers on the queue, and people with kubectl."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from shared.clusters.bundles import Bundles
from shared.clusters.names import RELEASED
from shared.errors import ConflictError, UnavailableError
from shared.jobs.model import Head
from shared.jobs.submission import KeyTakenError
from shared.queues.submissions import SCOPE
from shared.store import keys
from tests.simulation.invariants import Broken
from tests.simulation.processes import Process
from tests.simulation.workers import Api, Services
from tests.simulation.workload import NAMESPACE, Plan, request_of, stranger

JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_MERGE = {"Content-Type": "application/merge-patch+json"}
Door = tuple[Process, Api]


class Users:
    """Do what the plans say, each from its submission to the last thing that is done to it."""

    def __init__(self, services: Services, doors: Sequence[Door], heads: Mapping[str, Head], chance: random.Random) -> None:
        self._services = services
        self._doors = doors
        self._heads = heads
        self._chance = chance
        self._loop = asyncio.get_running_loop()

    async def use(self, plan: Plan) -> None:
        """Everything that is done about one job."""
        await self._until(plan.submit_at)
        if plan.by_queue:
            await self._produce(plan)
        else:
            await self._submit(plan)
        if plan.kind == "stranger":
            self._take_name(plan)
        if plan.cancel_at is not None:
            await self._until(plan.cancel_at)
            await self._cancel(plan)
        if plan.pause_at is not None:
            await self._until(plan.pause_at)
            await self._pause(plan)
        if plan.delete_at is not None:
            await self._until(plan.delete_at)
            await self._delete(plan)
        if plan.again_at is not None and not plan.by_queue:
            await self._until(plan.again_at)
            await self._submit(plan)
            await self._submit_something_else(plan)

    def check_stranger(self, plan: Plan) -> None:
        """Whoever's Job took the name still has it, as it was."""
        if plan.stranger_uid is None:
            return
        head = self._head(plan).model_copy(update={"region": plan.stranger_region, "execution": 1})
        found = self._kubectl(head, "GET", f"{JOBS}/{Bundles().name(head)}")
        metadata = found.get("metadata", {})
        if metadata.get("uid") != plan.stranger_uid or metadata.get("deletionTimestamp") or RELEASED in metadata.get("annotations", {}):
            raise Broken("a stranger's object is left alone", f"{head.id}: {found}")

    async def _produce(self, plan: Plan) -> None:
        """A producer drops the job on the queue, now and then twice. In the end an operator redrives what became a dead letter."""
        body = json.dumps({**plan.request, "idempotency_key": plan.key})
        queue = self._services.queues.find(self._services.settings.submissions_queue)
        for _ in range(self._chance.choice((1, 1, 2))):
            self._services.queues.send(queue, body, {}, 0.0)
        while plan.job_id is None:
            await asyncio.sleep(2.0)
            if self._services.faults.calm:
                self._services.queues.redrive(queue)
            entry = self._services.tables.items(keys.idempotency(SCOPE, plan.key)).get("IDEM")
            plan.job_id = entry["job_id"]["S"] if entry else None

    async def _submit(self, plan: Plan) -> None:
        """A client of the API sends the job, again and again under the same key until it has an answer."""
        request = request_of(plan.request, plan.key)
        result = await self.insist(lambda api: api.submission.submit(request))
        self._tell(f"{plan.key} is {result.head.id} ({plan.kind}, {'new' if result.created else 'known'})")
        if plan.job_id not in (None, result.head.id):
            raise Broken("one idempotency key, one job", f"{plan.key}: {plan.job_id} and {result.head.id}")
        plan.job_id = result.head.id

    async def _submit_something_else(self, plan: Plan) -> None:
        """Another request under a key that is taken."""
        request = request_of({**plan.request, "priority": 77}, plan.key)
        try:
            result = await self.insist(lambda api: api.submission.submit(request))
        except KeyTakenError:
            return
        raise Broken("a key stands for one request", f"{plan.key}: accepted as {result.head.id}")

    async def _cancel(self, plan: Plan) -> None:
        job_id = plan.job_id or ""
        try:
            head = await self.insist(lambda api: api.cancellation.cancel(job_id, reason="no longer wanted", by="a user"))
        except ConflictError:
            self._tell(f"{plan.key} had ended before it was cancelled")
            return
        self._tell(f"{plan.key} cancelled while {head.state}")

    async def _delete(self, plan: Plan) -> None:
        """Somebody deletes what a job has on the cluster, until the job has ended of it."""
        while not self._head(plan).state.terminal:
            head = self._head(plan)
            if head.object is not None:
                policy = self._chance.choice(("Background", "Foreground", "Orphan"))
                found = self._kubectl(head, "DELETE", f"{JOBS}/{head.object.name}", {"propagationPolicy": policy})
                self._tell(f"kubectl delete job {head.object.name} --cascade={policy}: {found.get('code', 200)}")
            await asyncio.sleep(self._chance.uniform(1.0, 60.0))

    async def _pause(self, plan: Plan) -> None:
        """Somebody suspends a released object, and finds it suspended when it is to go on; where Kueue admits, that is Kueue's to do."""
        if self._services.settings.kueue_queue is not None:
            return
        while not (head := self._head(plan)).state.terminal:
            path = f"{JOBS}/{head.object.name}" if head.object else None
            if path is None or self._kubectl(head, "GET", path).get("spec", {}).get("suspend") is not False:
                await asyncio.sleep(self._chance.uniform(0.05, 2.0))
                continue
            self._kubectl(head, "PATCH", path, body={"spec": {"suspend": True}})
            self._tell(f"kubectl suspends {path}")
            await asyncio.sleep(self._chance.uniform(1.0, 100.0))
            found = self._kubectl(head, "GET", path)
            if found.get("kind") == "Job" and found["spec"]["suspend"] is not True and not found["metadata"].get("deletionTimestamp"):
                raise Broken("what was released once is never released again", f"{head.id}: {path}")
            self._kubectl(head, "PATCH", path, body={"spec": {"suspend": False}})
            return

    def _take_name(self, plan: Plan) -> None:
        """Somebody else makes a Job under the very name that the job's first object will have."""
        head = self._head(plan)
        found = self._kubectl(head, "POST", JOBS, body=stranger(Bundles().name(head)))
        self._tell(f"kubectl create job {Bundles().name(head)}: {found.get('code', 201)}")
        plan.stranger_uid = found.get("metadata", {}).get("uid")
        plan.stranger_region = head.region

    async def insist(self, request: Callable[[Api], Awaitable[Any]]) -> Any:
        """Send a request to the API until it is answered."""
        while True:
            process, api = self._chance.choice(self._doors)
            try:
                return await process.serve(lambda api=api: request(api))
            except (OSError, UnavailableError) as error:
                self._tell(f"tries again: {type(error).__name__} {error}")
                await asyncio.sleep(self._chance.uniform(0.1, 5.0))

    def _kubectl(self, head: Head, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> dict[str, Any]:
        """A request that meets no faults."""
        data = json.dumps(body).encode() if body is not None else None
        answer: Any = self._services.clusters[head.region].request(method, path, query or {}, _MERGE, data)
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def _head(self, plan: Plan) -> Head:
        return self._heads[plan.job_id or ""]

    def _tell(self, what: str) -> None:
        self._services.trace.step("  user", what)

    async def _until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self._loop.time()))
