"""One run: a world drawn from a seed, from the start of its processes to the verdict."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import warnings
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from shared.settings import Settings
from shared.store import keys
from tests.simulation import workers
from tests.simulation.cluster import simulated_cluster
from tests.simulation.disturber import Disturber
from tests.simulation.dynamodb import TABLE, Tables
from tests.simulation.faults import Faults
from tests.simulation.invariants import Broken, ClusterInvariants, TableInvariants, Violation
from tests.simulation.loop import DeadlockError, LivelockError, VirtualTimeLoop
from tests.simulation.operators import LAST_DRAIN, LAST_RESUME, Operators
from tests.simulation.processes import Clock, Main, Process, make_task
from tests.simulation.s3 import Bucket
from tests.simulation.sqs import Queues
from tests.simulation.trace import KEPT, Trace
from tests.simulation.users import Users
from tests.simulation.verdict import Verdict
from tests.simulation.workload import draw, wrong_end
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
        self._verdict = Verdict(loop, trace)
        loop.set_task_factory(make_task)
        loop.set_exception_handler(self._verdict.unhandled)
        structlog.configure(
            processors=[self._verdict.log], wrapper_class=structlog.make_filtering_bound_logger(20), cache_logger_on_first_use=False
        )
        self._chance = chance = random.Random(f"{seed}/world")
        busy = chance.choice((30.0, 120.0, 400.0))
        regions = ("eu-west-1", "us-east-1")[: chance.choice((1, 2, 2))]
        settings = Settings(
            regions=regions, table=TABLE, dispatch_slots=chance.choice((1, 2, 8)), kueue_queue=chance.choice((None, None, None, "fleet"))
        )
        clusters = {
            region: simulated_cluster(region, loop=loop, seed=seed, pace=_pace(chance), kueue_queue=settings.kueue_queue)
            for region in regions
        }
        self._services = workers.Services(
            settings=settings,
            tables=Tables(),
            queues=Queues(list(settings.queues()), loop=loop, chance=random.Random(f"{seed}/queues")),
            bucket=Bucket(),
            clusters=clusters,
            prices=workers.Prices(chance.uniform(0.0, busy * 2)),
            faults=Faults(random.Random(f"{seed}/faults"), loop=loop, trace=trace, calm_at=busy * 1.5),
            trace=trace,
            chance=random.Random(f"{seed}/processes"),
        )
        self._table = TableInvariants(
            self._services.tables, keys.Layout(), trace, now=loop.time, strict_from=self._services.faults.calm_at + LAST_DRAIN
        )
        self._services.tables.on_write = self._check_table
        self._seen = {region: ClusterInvariants(cluster, self._table, trace, self._verdict.report) for region, cluster in clusters.items()}
        self._widest_skew = chance.choice((0.0, 0.5, 5.0, 30.0))
        apis = [workers.Api() for _ in range(chance.choice((1, 2)))]
        doors = [(self._process(f"api/{number}", partial(api.main, self._services)), api) for number, api in enumerate(apis)]
        self._processes = [*self._workers(regions), *(process for process, _ in doors)]
        self._plans = [draw(chance, number, regions, busy) for number in range(chance.randint(2, 5))]
        self._users = Users(self._services, doors, self._table.heads, chance)
        self._operators = Operators(self._services, self._users, random.Random(f"{seed}/operators"))
        if self._operators.returns:
            calm_at = self._services.faults.calm_at
            late = draw(chance, len(self._plans), regions, calm_at + LAST_RESUME, since=calm_at + LAST_DRAIN + 60.0)
            self._plans.append(late)
        self._disturber = Disturber(self._services, self._processes, self._table.heads)

    def run(self) -> Result:
        """From the first process's start to the verdict."""
        try:
            self._loop.run_until_complete(self._live())
        except (DeadlockError, LivelockError) as error:
            self._verdict.report(Violation("something always goes on", str(error)))
        self._end()
        return Result(
            seed=self._seed,
            violation=self._verdict.violation,
            digest=self._trace.digest,
            steps=self._trace.steps,
            seconds=self._loop.time(),
            counts=self._trace.counts,
            trace=self._trace.last,
        )

    def _workers(self, regions: tuple[str, ...]) -> Iterator[Process]:
        chance, services = self._chance, self._services
        for region in regions:
            for number in range(chance.choice((2, 3)) if len(regions) == 1 else 2):
                yield self._process(f"dispatcher/{region}/{number}", partial(workers.dispatcher, services, region=region))
            for number in range(chance.choice((1, 2))):
                yield self._process(f"observer/{region}/{number}", partial(workers.observer, services, region=region))
        for number in range(chance.choice((1, 2))):
            yield self._process(f"sweeper/{number}", partial(workers.sweeper, services))
        yield self._process("ingest", partial(workers.ingest, services))

    def _process(self, name: str, main: Main) -> Process:
        clock = Clock(self._loop, self._chance.uniform(-self._widest_skew, self._widest_skew))
        return Process(name, main, loop=self._loop, clock=clock, pause=self._restart_pause, on_error=self._verdict.failed)

    def _restart_pause(self) -> float:
        """How long a supervisor takes to start a process again."""
        faults = self._services.faults
        if faults.calm:
            return 1.0
        return min(faults.chance.choice((0.1, 5.0, 100.0)) * faults.chance.random(), faults.calm_at - self._loop.time() + 1.0)

    def _check_table(self, touched: list[tuple[str, str]]) -> None:
        try:
            self._table.check(touched)
        except Broken as broken:
            self._verdict.report(broken.violation)

    async def _live(self) -> None:
        for process in self._processes:
            process.start()
        users = [self._start(self._users.use(plan)) for plan in self._plans]
        self._start(self._disturber.disturb())
        users.append(self._start(self._operators.operate()))
        self._start(self._watch_for_rest(users))
        await self._verdict.over

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await coroutine
            except Broken as broken:
                self._verdict.report(broken.violation)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must be told
                self._verdict.failed("world", error)

        return self._loop.create_task(guarded())

    def _end(self) -> None:
        """Let nothing of the run be left in the loop."""
        self._loop.set_exception_handler(lambda loop, context: None)
        self._services.tables.on_write = lambda touched: None
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

    async def _watch_for_rest(self, users: list[asyncio.Task[None]]) -> None:
        await asyncio.sleep(self._services.faults.calm_at - self._loop.time())
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
        self._verdict.end()

    def _left(self, users: list[asyncio.Task[None]]) -> list[str]:
        """What is not yet at rest."""
        heads = self._table.heads.values()
        left = [f"job {head.id} is {head.state}, due {keys.due_at(head)}, stop {head.stop}" for head in heads if not head.state.terminal]
        left += [f"object {name} on {region}" for region, seen in self._seen.items() for name in seen.unfinished()]
        return left + ["a user"] * sum(not user.done() for user in users)

    def _check_ends(self) -> None:
        heads = self._table.heads
        if set(heads) != {plan.job_id for plan in self._plans}:
            raise Broken("one accepted job for each request", f"{sorted(heads)}, asked for {[plan.job_id for plan in self._plans]}")
        for plan in self._plans:
            head = heads[plan.job_id or ""]
            wrong = wrong_end(plan, head)
            if wrong is not None:
                raise Broken("every job ends as it must", f"{head.id}: {wrong}")
            self._users.check_stranger(plan)
            self._trace.count(f"job: {plan.kind} -> {head.state}")
            stored = self._services.tables.items(keys.job(head.id))
            for number in range(1, head.execution):
                if keys.execution(number) not in stored:
                    raise Broken("every execution that ended is kept", f"{head.id}: {number} of {head.execution}")
        for body in self._services.queues.dead_letters():
            self._trace.count(f"dead letter: {json.loads(body).get('kind', 'submission')}")


def _pace(chance: random.Random) -> Pace:
    return Pace(
        controller_delay=chance.choice((0.005, 0.5)),
        container_start=chance.choice((0.05, 1.0, 15.0)),
        termination=chance.choice((0.2, 5.0, 25.0)),
        backoff_base=chance.choice((0.2, 10.0)),
        node_notice=chance.choice((0.4, 20.0)),
    )
