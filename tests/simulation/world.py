"""One run: a world drawn from a seed, its users and disturbers, and the verdict."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import traceback
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from shared.clusters.bundles import Bundles
from shared.clusters.names import RELEASED
from shared.errors import ConflictError, UnavailableError
from shared.jobs.model import Head
from shared.jobs.submission import KeyTakenError
from shared.queues.submissions import SCOPE
from shared.settings import Settings
from shared.store import keys
from tests.simulation import workers
from tests.simulation.cluster import simulated_cluster
from tests.simulation.dynamodb import TABLE, Tables
from tests.simulation.faults import Fault, Faults
from tests.simulation.invariants import Broken, ClusterInvariants, TableInvariants, Violation
from tests.simulation.loop import DeadlockError, LivelockError, VirtualTimeLoop
from tests.simulation.processes import Clock, KilledError, Process, make_task
from tests.simulation.s3 import Bucket
from tests.simulation.sqs import Queues
from tests.simulation.trace import KEPT, Trace
from tests.simulation.workload import NAMESPACE, Plan, draw, request_of, stranger, wrong_end
from workers.local.cluster import Pace

REST_LIMIT = 4 * 3600.0
"""Seconds after the last fault within which everything must have come to rest."""
QUIET = 200.0
"""Seconds for which it must then stay at rest: longer than the grace of strays, and than two leases."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a run ended."""

    seed: int
    violation: Violation | None
    digest: str
    steps: int
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)


def run(seed: int, *, kept: int | None = KEPT) -> Result:
    """Run one seed to its end."""
    random.seed(f"{seed}/libraries")
    with _quiet():
        loop = VirtualTimeLoop()
        try:
            return loop.run_until_complete(_make(seed, loop, kept)).run()
        finally:
            loop.close()


async def _make(seed: int, loop: VirtualTimeLoop, kept: int | None) -> _World:
    """Inside of the loop, since the drivers of clusters ask for the running one."""
    return _World(seed, loop, Trace(loop, kept=kept))


@contextmanager
def _quiet() -> Iterator[None]:
    """No collection in the midst of a run, no warning of what killed processes leave behind, and no trace in the log's configuration."""
    configured = structlog.get_config()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="coroutine .* was never awaited", category=RuntimeWarning)
            yield
            gc.collect()
    finally:
        gc.enable()
        structlog.configure(**configured)


class _World:
    def __init__(self, seed: int, loop: VirtualTimeLoop, trace: Trace) -> None:
        self._seed = seed
        self._loop = loop
        self._trace = trace
        self._chance = chance = random.Random(f"{seed}/world")
        self._violation: Violation | None = None
        self._over = loop.create_future()
        self._tasks: list[asyncio.Task[Any]] = []
        loop.set_task_factory(make_task)
        loop.set_exception_handler(self._unhandled)
        structlog.configure(
            processors=[self._log], wrapper_class=structlog.make_filtering_bound_logger(20), cache_logger_on_first_use=False
        )
        busy = chance.choice((30.0, 120.0, 400.0))
        regions = ("eu-west-1", "us-east-1")[: chance.choice((1, 1, 2))]
        self._faults = Faults(random.Random(f"{seed}/faults"), loop=loop, trace=trace, calm_at=busy * 1.5)
        self._settings = Settings(regions=regions, table=TABLE, dispatch_slots=chance.choice((1, 2, 8)))
        self._layout = keys.Layout()
        self._tables = Tables()
        self._table_invariants = TableInvariants(self._tables, self._layout, trace)
        self._tables.on_write = self._check_table
        self._clusters = {region: simulated_cluster(region, loop=loop, seed=seed, pace=_pace(chance)) for region in regions}
        self._cluster_invariants = {
            region: ClusterInvariants(cluster, self._table_invariants, trace, self._report) for region, cluster in self._clusters.items()
        }
        self._queues = Queues(list(self._settings.queues()), loop=loop, chance=random.Random(f"{seed}/queues"))
        self._services = workers.Services(
            settings=self._settings,
            tables=self._tables,
            queues=self._queues,
            bucket=Bucket(),
            clusters=self._clusters,
            prices=workers.Prices(chance.uniform(0.0, busy * 2)),
            faults=self._faults,
            trace=trace,
            chance=random.Random(f"{seed}/processes"),
        )
        self._api = workers.Api()
        self._processes = list(self._make_processes(regions))
        self._doors = [process for process in self._processes if process.name.startswith("api")]
        self._plans = [draw(chance, number, regions, busy) for number in range(chance.randint(2, 5))]

    def run(self) -> Result:
        """From the first process's start to the verdict."""
        try:
            self._loop.run_until_complete(self._live())
        except (DeadlockError, LivelockError) as error:
            self._report(Violation("something always goes on", str(error)))
        self._end()
        return Result(
            seed=self._seed,
            violation=self._violation,
            digest=self._trace.digest,
            steps=self._trace.steps,
            seconds=self._loop.time(),
            counts=self._trace.counts,
            trace=self._trace.last,
        )

    def _make_processes(self, regions: tuple[str, ...]) -> list[Process]:
        chance = self._chance
        mains: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {}
        for region in regions:
            for number in range(chance.choice((2, 3)) if len(regions) == 1 else 2):
                mains[f"dispatcher/{region}/{number}"] = lambda life, region=region: workers.dispatcher(self._services, life, region)
            for number in range(chance.choice((1, 2))):
                mains[f"observer/{region}/{number}"] = lambda life, region=region: workers.observer(self._services, life, region)
        for number in range(chance.choice((1, 2))):
            mains[f"sweeper/{number}"] = lambda life: workers.sweeper(self._services, life)
        mains["api"] = lambda life: self._api.main(self._services, life)
        mains["ingest"] = lambda life: workers.ingest(self._services, life)
        widest = chance.choice((0.0, 0.5, 5.0, 30.0))
        return [
            Process(
                name,
                main,
                loop=self._loop,
                clock=Clock(self._loop, chance.uniform(-widest, widest)),
                pause=self._restart_pause,
                on_error=self._worker_failed,
            )
            for name, main in mains.items()
        ]

    def _restart_pause(self) -> float:
        """How long a supervisor takes to start a process again."""
        chance = self._faults.chance
        if self._faults.calm:
            return 1.0
        return min(chance.choice((0.1, 5.0, 100.0)) * chance.random(), self._faults.calm_at - self._loop.time() + 1.0)

    # What is wrong

    def _report(self, violation: Violation) -> None:
        if self._violation is None:
            self._violation = violation
            self._trace.step("  VIOLATION", f"{violation.invariant}: {violation.details}")
            if not self._over.done():
                self._over.set_result(None)

    def _check_table(self, touched: list[tuple[str, str]]) -> None:
        try:
            self._table_invariants.check(touched)
        except Broken as broken:
            self._report(broken.violation)

    def _worker_failed(self, name: str, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        self._report(Violation("no worker ends by an error", f"{name}: {text}"))

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, (KilledError, asyncio.CancelledError)):
            return
        text = "".join(traceback.format_exception(error))
        self._report(Violation("no task fails unseen", f"{context.get('message')}: {text}"))

    def _log(self, logger: Any, level: str, event: Any) -> Any:
        error = event.pop("exc_info", None)
        if level in {"error", "critical"} and not isinstance(error, KilledError):
            text = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else str(error)
            self._report(Violation("no worker logs an error", f"{event}: {text}"))
        return self._trace.log_processor(logger, level, event)

    # What goes on

    async def _live(self) -> None:
        for process in self._processes:
            process.start()
        users = [self._start(self._use(plan)) for plan in self._plans]
        self._start(self._disturb())
        self._start(self._watch_for_rest(users))
        await self._over

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await coroutine
            except Broken as broken:
                self._report(broken.violation)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must be told
                self._worker_failed("world", error)

        task = self._loop.create_task(guarded())
        self._tasks.append(task)
        return task

    def _end(self) -> None:
        """Let nothing of the run be left in the loop."""
        self._loop.set_exception_handler(lambda loop, context: None)
        self._tables.on_write = lambda touched: None
        for process in self._processes:
            process.retire()
        for _ in range(50):
            left = asyncio.all_tasks(self._loop)
            if not left:
                break
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left, timeout=0.1))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    async def _until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self._loop.time()))

    # Users

    async def _use(self, plan: Plan) -> None:
        await self._until(plan.submit_at)
        if plan.by_queue:
            await self._produce(plan)
        else:
            await self._submit(plan)
        if plan.cancel_at is not None:
            await self._until(plan.cancel_at)
            await self._cancel(plan)
        if plan.delete_at is not None:
            await self._until(plan.delete_at)
            await self._delete(plan)
        if plan.kind == "stranger":
            self._take_name(plan)
        if plan.again_at is not None and not plan.by_queue:
            await self._until(plan.again_at)
            await self._submit(plan)
            await self._submit_something_else(plan)

    async def _produce(self, plan: Plan) -> None:
        """A producer drops the job on the queue, now and then twice."""
        body = json.dumps({**plan.request, "idempotency_key": plan.key})
        queue = self._queues.find(self._settings.submissions_queue)
        for _ in range(self._chance.choice((1, 1, 2))):
            self._queues.send(queue, body, {}, 0.0)
        while plan.job_id is None:
            await asyncio.sleep(2.0)
            if self._faults.calm:
                self._queues.redrive(queue)
            entry = self._tables.items(keys.idempotency(SCOPE, plan.key)).get("IDEM")
            plan.job_id = entry["job_id"]["S"] if entry else None

    async def _submit(self, plan: Plan) -> None:
        """A client of the API sends the job, again and again under the same key until it has an answer."""
        request = request_of(plan.request, plan.key)
        result = await self._insist(lambda: self._api.submission.submit(request))
        self._trace.step("  user", f"{plan.key} is {result.head.id} ({plan.kind}, {'new' if result.created else 'known'})")
        if plan.job_id not in (None, result.head.id):
            raise Broken("one idempotency key, one job", f"{plan.key}: {plan.job_id} and {result.head.id}")
        plan.job_id = result.head.id

    async def _submit_something_else(self, plan: Plan) -> None:
        """Another request under a key that is taken."""
        request = request_of({**plan.request, "priority": 77}, plan.key)
        try:
            result = await self._insist(lambda: self._api.submission.submit(request))
        except KeyTakenError:
            return
        raise Broken("a key stands for one request", f"{plan.key}: accepted as {result.head.id}")

    async def _cancel(self, plan: Plan) -> None:
        job_id = plan.job_id or ""
        try:
            head = await self._insist(lambda: self._api.cancellation.cancel(job_id, reason="no longer wanted", by="a user"))
        except ConflictError:
            self._trace.step("  user", f"{plan.key} had ended before it was cancelled")
            return
        plan.cancel_accepted = True
        self._trace.step("  user", f"{plan.key} cancelled while {head.state}")

    async def _delete(self, plan: Plan) -> None:
        """Somebody deletes what a job has on the cluster with kubectl, until the job has ended of it."""
        job_id = plan.job_id or ""
        while not self._table_invariants.heads[job_id].state.terminal:
            head = self._table_invariants.heads[job_id]
            name = head.object.name if head.object else None
            if name is not None:
                policy = self._chance.choice(("Background", "Foreground"))
                path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{name}"
                answer = self._clusters[head.region].request("DELETE", path, {"propagationPolicy": policy}, {}, None)
                self._trace.step("  user", f"kubectl delete {name} --cascade={policy}: {answer.status}")
            await asyncio.sleep(self._chance.uniform(1.0, 60.0))

    def _take_name(self, plan: Plan) -> None:
        """Somebody else makes a Job under the very name that the job's first object will have."""
        head = self._table_invariants.heads[plan.job_id or ""]
        job = stranger(Bundles().name(head))
        answer = self._clusters[head.region].request(
            "POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {}, {}, json.dumps(job).encode()
        )
        self._trace.step("  user", f"kubectl create job {job['metadata']['name']}: {answer.status}")
        if answer.status == 201:
            plan.stranger_uid = json.loads(answer.body)["metadata"]["uid"]

    async def _insist(self, request: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request to the API until it is answered."""
        while True:
            try:
                return await self._doors[0].serve(request)
            except (OSError, UnavailableError) as error:
                self._trace.step("  user", f"tries again: {type(error).__name__} {error}")
                await asyncio.sleep(self._chance.uniform(0.1, 5.0))

    # Disturbers

    async def _disturb(self) -> None:
        """Kills, stops, freezes and clock jumps that no request brings about, and what befalls clusters."""
        chance = self._faults.chance
        often = chance.choice((5.0, 30.0, 1000.0))
        while True:
            await asyncio.sleep(chance.expovariate(1 / often))
            if self._faults.calm:
                return
            process = chance.choice(self._processes)
            match chance.choice(("kill", "stop", "freeze", "clock", "compact", "node", "outage")):
                case "kill":
                    self._tell(process.name, "kill -9")
                    process.life.kill()
                case "stop":
                    self._tell(process.name, "SIGTERM")
                    process.life.stop.set()
                case "freeze":
                    self._tell(process.name, "SIGSTOP for a while")
                    process.life.freeze(chance.choice((5.0, 70.0, 150.0)))
                case "clock":
                    self._faults.tell(process.name, Fault.CLOCK_JUMP, "")
                    process.clock.skew = chance.uniform(-30.0, 30.0)
                case "compact":
                    self._tell("cluster", "compaction")
                    chance.choice(list(self._clusters.values())).compact()
                case "node":
                    self._tell("cluster", "node interruption")
                    self._interrupt_node(chance)
                case "outage":
                    self._begin_outage(chance)

    def _begin_outage(self, chance: random.Random) -> None:
        service = chance.choice((workers.DYNAMODB, workers.SQS, workers.S3, *self._clusters, *self._clusters))
        who = chance.choice((None, chance.choice(self._processes).name))
        seconds = chance.choice((3.0, 40.0, 90.0)) * chance.uniform(0.5, 1.0)
        self._faults.begin_outage(service, who, seconds)
        self._faults.tell(who or "all", Fault.OUTAGE, f"{service} for {seconds:.0f} s")

    def _tell(self, who: str, what: str) -> None:
        self._trace.count(f"fault: {what}")
        self._trace.step(who, f"!! {what}")

    def _interrupt_node(self, chance: random.Random) -> None:
        try:
            chance.choice(list(self._clusters.values())).interrupt_node(chance.choice(("cpu-1", "gpu-1", "spot-1")))
        except KeyError:
            return

    # The end

    async def _watch_for_rest(self, users: list[asyncio.Task[None]]) -> None:
        await self._until(self._faults.calm_at)
        self._trace.step("  world", "the time of faults is over")
        limit = self._loop.time() + REST_LIMIT
        since = self._loop.time()
        while self._loop.time() - since < QUIET:
            await asyncio.sleep(5.0)
            left = self._left(users)
            if left:
                since = self._loop.time()
            if left and since > limit:
                raise Broken("everything comes to rest once faults stop", "; ".join(left))
        self._check_ends()
        if not self._over.done():
            self._over.set_result(None)

    def _left(self, users: list[asyncio.Task[None]]) -> list[str]:
        """What is not yet at rest."""
        heads = self._table_invariants.heads.values()
        left = [f"job {head.id} is {head.state}, due {keys.due_at(head)}, stop {head.stop}" for head in heads if not head.state.terminal]
        left += [f"object {name} on {region}" for region, seen in self._cluster_invariants.items() for name in seen.unfinished()]
        return left + ["a user"] * sum(not user.done() for user in users)

    def _check_ends(self) -> None:
        heads = self._table_invariants.heads
        if set(heads) != {plan.job_id for plan in self._plans}:
            raise Broken("one accepted job for each request", f"{sorted(heads)}, asked for {[plan.job_id for plan in self._plans]}")
        for plan in self._plans:
            head = heads[plan.job_id or ""]
            wrong = wrong_end(plan, head)
            if wrong is not None:
                raise Broken("every job ends as it must", f"{head.id}: {wrong}")
            if plan.stranger_uid is not None:
                self._check_stranger(plan.stranger_uid, head)
            self._trace.count(f"job: {plan.kind} -> {head.state}")
            stored = self._tables.items(keys.job(head.id))
            for number in range(1, head.execution):
                if keys.execution(number) not in stored:
                    raise Broken("every execution that ended is kept", f"{head.id}: {number} of {head.execution}")
        for body in self._queues.dead_letters():
            self._trace.count(f"dead letter: {json.loads(body).get('kind', 'submission')}")

    def _check_stranger(self, uid: str, head: Head) -> None:
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{Bundles().name(head)}"
        found = json.loads(self._clusters[head.region].request("GET", path, {}, {}, None).body)
        metadata = found.get("metadata", {})
        if metadata.get("uid") != uid or metadata.get("deletionTimestamp") or RELEASED in metadata.get("annotations", {}):
            raise Broken("a stranger's object is left alone", f"{head.id}: {found}")


def _pace(chance: random.Random) -> Pace:
    return Pace(
        controller_delay=chance.choice((0.005, 0.5)),
        container_start=chance.choice((0.05, 1.0, 15.0)),
        termination=chance.choice((0.2, 5.0, 25.0)),
        backoff_base=chance.choice((0.2, 10.0)),
        node_notice=chance.choice((0.4, 20.0)),
    )
