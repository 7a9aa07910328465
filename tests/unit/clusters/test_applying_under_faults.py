"""Applying manifests while requests and answers are lost, in virtual time: what is told is what was done, and nothing runs twice unseen.

Each seed is another run: one to three callers apply Jobs and ConfigMaps of the same names, with faults on few requests or on nearly all.
"""

from __future__ import annotations

import asyncio
import json
import random
from random import Random
from typing import Any

import pytest

from shared.clusters.api import KubernetesApi
from shared.clusters.applying import Done, Outcome, Wanted, apply
from shared.clusters.errors import ApiError
from shared.errors import ConflictError, UnavailableError
from tests.simulation.loop import VirtualTimeLoop
from workers.local.cluster import Driver, NodeShape, SimulatedCluster
from workers.local.cluster.faults import Fault
from workers.local.cluster.in_process import InProcessTransport

NAMESPACE = "ml"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
EPOCH = 1_800_000_000
OURS = {"metadata": {"name": "ours", "labels": {"gpufleet.io/managed": "true", "gpufleet.io/job-id": "j"}}, "data": {"a": "1"}}


class Faulty(InProcessTransport):
    """A way on which some requests meet a fault, few or nearly all."""

    def __init__(self, cluster: SimulatedCluster, chance: Random) -> None:
        super().__init__(cluster)
        self._chance = chance
        self._rate = chance.choice((0.1, 0.3, 0.6, 0.9))

    async def send(self, method: str, path: str, **options: Any) -> Any:
        await asyncio.sleep(self._chance.random() * 0.05)
        if self._chance.random() < self._rate:
            self.faults.add(self._fault(method))
        return await super().send(method, path, **options)

    def _fault(self, method: str) -> Fault:
        kinds = [{"action": "drop"}, {"action": "apply_then_drop"}, {"status": 503}, {"status": 429, "retry_after": 1}]
        kinds += [{"action": "apply_then_answer", "status": 504}, {"action": "delay", "delay": 0.5}]
        kinds += [{"status": 409}] if method in ("PATCH", "POST") else []
        return Fault(**self._chance.choice(kinds))


class Run:
    """One run, and what it has to show."""

    def __init__(self, seed: int, loop: asyncio.AbstractEventLoop) -> None:
        self.chance = Random(seed)
        self.cluster = SimulatedCluster(
            name="r", region="r", nodes=(NodeShape(name="n"),), clock=lambda: EPOCH + loop.time(), seed=seed, namespaces=(NAMESPACE,)
        )
        self.loop = loop
        self.plain = KubernetesApi(InProcessTransport(self.cluster))
        self.told: list[str] = []
        self.open = 0
        self.alone = self.chance.random() < 0.5

    async def main(self) -> None:
        Driver(self.cluster, clock=lambda: EPOCH + self.loop.time())
        await self.plain.request("POST", CONFIG_MAPS, body=OURS)
        before = await self.plain.request("GET", f"{CONFIG_MAPS}/ours")
        events: list[dict[str, Any]] = []
        watching = asyncio.create_task(self._watch(events))
        await asyncio.sleep(0.01)
        try:
            await asyncio.gather(*(self._caller(number) for number in range(1 if self.alone else self.chance.randint(2, 3))))
            await asyncio.sleep(1)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        self._check(events)
        assert await self.plain.request("GET", f"{CONFIG_MAPS}/ours") == before

    async def _watch(self, events: list[dict[str, Any]]) -> None:
        async with self.plain.stream(JOBS, query={"watch": "true"}) as chunks:
            async for chunk in chunks:
                events.extend(json.loads(line) for line in chunk.splitlines())

    async def _caller(self, number: int) -> None:
        api = KubernetesApi(Faulty(self.cluster, self.chance), timeout=3.0)
        for _ in range(4):
            wanted = [self._object(name) for name in self.chance.sample(["job-a", "job-b", "map-a", "map-b"], self.chance.randint(1, 4))]
            if self.chance.random() < 0.1:
                wanted.insert(0, Wanted(manifest={"apiVersion": "v1", "kind": "ConfigMap", **OURS}, namespace=NAMESPACE))
            standing = await self._all_standing(wanted)
            try:
                outcome = await apply(api, wanted, submitted_by=f"caller-{number}")
            except (ConflictError, UnavailableError, ApiError):
                if self.alone:
                    assert await self._all_standing(wanted) == standing
                continue
            await self._judge(outcome, wanted, standing)
            await asyncio.sleep(self.chance.random() * 60)

    async def _judge(self, outcome: Outcome, wanted: list[Wanted], standing: dict[str, Any]) -> None:
        assert [one.name for one in outcome.resources] == [one.manifest["metadata"]["name"] for one in wanted]
        for one, told in zip(wanted, outcome.resources, strict=True):
            is_open = "is not known" in told.message
            self.open += is_open
            if told.kind == "Job":
                self.told += [told.uid] if told.status is Done.CREATED else []
            elif self.alone and not is_open:
                await self._judge_alone(one, told.status, standing[told.name])

    async def _judge_alone(self, one: Wanted, status: Done, before: Any) -> None:
        now = await self._standing(one)
        if status in (Done.SKIPPED, Done.FAILED):
            assert now == before
            return
        assert now["data"] == one.manifest["data"]
        assert status is (Done.CREATED if before is None else Done.UNCHANGED if now == before else Done.UPDATED)

    def _object(self, name: str) -> Wanted:
        # Longer than a caller tries: of a Job whose answer was lost and that has gone meanwhile nobody could tell that it was there.
        steer = {"simulation.gpufleet.io/duration": str(20 + self.chance.random() * 20)}
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}
        job = {"kind": "Job", "apiVersion": "batch/v1", "spec": {"template": {"metadata": {"annotations": steer}, "spec": pod}}}
        config = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "data": dict.fromkeys(self.chance.sample("abc", self.chance.randint(1, 3)), "1"),
        }
        return Wanted(manifest={**(job if name.startswith("job") else config), "metadata": {"name": name}}, namespace=NAMESPACE)

    async def _all_standing(self, wanted: list[Wanted]) -> dict[str, Any]:
        found = await asyncio.gather(*map(self._standing, wanted))
        return dict(zip((one.manifest["metadata"]["name"] for one in wanted), found, strict=True))

    async def _standing(self, one: Wanted) -> Any:
        kind, name = one.manifest["kind"], one.manifest["metadata"]["name"]
        if kind == "Job":
            return None
        try:
            return await self.plain.request("GET", f"{CONFIG_MAPS}/{name}")
        except ApiError:
            return None

    def _check(self, events: list[dict[str, Any]]) -> None:
        added = [event["object"]["metadata"] for event in events if event["type"] == "ADDED"]
        marks = [metadata["annotations"]["gpufleet.io/submission"] for metadata in added]
        assert len(set(marks)) == len(marks), "one create has made two Jobs"
        assert len(set(self.told)) == len(self.told), "two were told that they have created the same Job"
        made = {metadata["uid"] for metadata in added}
        assert set(self.told) <= made
        assert len(made - set(self.told)) <= self.open, "a Job was created of which nobody was told"
        for event in events:
            if event["type"] == "DELETED":
                conditions = {one["type"] for one in event["object"]["status"].get("conditions") or ()}
                assert conditions & {"Complete", "Failed"}, "an active Job was deleted"


@pytest.fixture
def restored_chance():
    """Waits between tries are drawn from the process's own randomness."""
    state = random.getstate()
    yield
    random.setstate(state)


@pytest.mark.usefixtures("restored_chance")
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_what_is_told_is_what_was_done(first):
    for seed in range(first, first + 20):
        random.seed(seed)
        loop = VirtualTimeLoop()
        try:
            loop.run_until_complete(Run(seed, loop).main())
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}") from failure
        finally:
            loop.close()
