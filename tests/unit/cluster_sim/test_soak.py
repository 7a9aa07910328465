"""Many things at once, from a seed: what must hold at every moment, and what must be left when all is over."""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.cluster_sim.harness import JOBS, PODS, Bench, conditions, job
from workers.local.cluster import NodeShape

NODES = [NodeShape(name=f"n{number}", pods=4, cpu="4", gpus=number % 2, taints=[]) for number in range(4)]


class Soak:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bench = Bench(nodes=NODES, seed=seed, queues={"team": {"cpu": "6"}})
        self.watch = self.bench.watch(JOBS)
        self.count = 0

    def names(self, path: str) -> list[str]:
        return self.bench.get(path).names

    def create(self) -> None:
        self.count += 1
        random = self.random
        steer = random.choice(
            [{}, {"exit-code": "1,0"}, {"exit-code": "1"}, {"interrupt-after": "0.2"}, {"hang": "true"}, {"duration": "2"}]
        )
        labels = random.choice([{}, {"kueue.x-k8s.io/queue-name": "team"}])
        spec = random.choice([{}, {"parallelism": 3, "completions": 5}, {"completions": 3, "completionMode": "Indexed"}])
        more = random.choice([{}, {"suspend": True}, {"ttlSecondsAfterFinished": 3}, {"activeDeadlineSeconds": 2}, {"backoffLimit": 0}])
        restart = random.choice(["Never", "OnFailure"])
        container = {"resources": {"limits": {"cpu": random.choice(["100m", "1", "3"])}}}
        body = job(f"j{self.count}", labels=labels, steer=steer, restart=restart, container=container, **spec, **more)
        assert self.bench.post(JOBS, body).status == 201

    def act(self) -> None:
        bench, random = self.bench, self.random
        jobs, pods, nodes = self.names(JOBS), self.names(PODS), bench.cluster.node_names
        match random.randrange(7):
            case 0 | 1:
                self.create()
            case 2 if jobs:
                bench.patch(f"{JOBS}/{random.choice(jobs)}", {"spec": {"suspend": random.random() < 0.5}})
            case 3 if jobs:
                policy = random.choice(["Foreground", "Background", "Orphan"])
                bench.delete(f"{JOBS}/{random.choice(jobs)}", propagationPolicy=policy)
            case 4 if pods:
                bench.delete(f"{PODS}/{random.choice(pods)}", **random.choice([{}, {"gracePeriodSeconds": 0}]))
            case 5 if pods:
                bench.post(f"{PODS}/{random.choice(pods)}/eviction", {})
            case 6 if nodes and random.random() < 0.3:
                bench.cluster.interrupt_node(random.choice(nodes))
            case _:
                pass
        bench.run(random.choice([0.0, 0.01, 0.1, 1.0]))

    def check(self) -> None:
        self.check_room()
        for found in self.bench.get(JOBS).items:
            status, ends = found["status"], conditions(found)
            assert not {"Complete", "Failed"} <= ends.keys()
            if ends.keys() & {"Complete", "Failed"}:
                assert not status.get("active")
                assert not status["terminating"]

    def check_room(self) -> None:
        placed: dict[str, int] = {}
        for pod in self.bench.get("/api/v1/pods").items:
            if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running"):
                placed[pod["spec"]["nodeName"]] = placed.get(pod["spec"]["nodeName"], 0) + 1
        assert all(count <= 4 for count in placed.values())


@pytest.mark.parametrize("seed", range(12))
def test_many_things_at_once(seed):
    soak = Soak(seed)
    for _ in range(150):
        soak.act()
        soak.check()

    bench = soak.bench
    bench.delete(JOBS, {"propagationPolicy": "Foreground"})
    bench.run(5)
    bench.delete(PODS)
    bench.run(20)

    assert bench.get("/api/v1/pods").items == bench.get(JOBS).items == []
    assert bench.cluster.node_names == [shape.name for shape in NODES]
    cluster = bench.cluster
    assert not cluster._jobs._ledgers
    assert not cluster._kubelet._sandboxes
    assert not cluster._scheduler._placed
    assert not cluster._scheduler._class_of
    assert all(not any(node.used.values()) for node in cluster._scheduler._nodes.values())
    assert cluster._queues._free == {"team": {"cpu": 6000}}
    assert not cluster._queues._waiting
    starts: dict[str, int] = {}
    for start in cluster.started:
        starts[start.pod_name] = starts.get(start.pod_name, 0) + 1
    assert set(starts.values()) <= {1}
