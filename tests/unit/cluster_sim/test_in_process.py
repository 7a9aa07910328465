import asyncio
import json

import pytest

from tests.unit.cluster_sim.harness import CONFIG_MAPS, JOBS, PODS, config_map, job
from workers.local.cluster import Driver, Fault, InProcessTransport, NodeShape, SimulatedCluster


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time jumps to the next thing that is planned."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0
        self._selector.select, real = self._select, self._selector.select  # type: ignore[method-assign]
        self._real = real

    def time(self) -> float:
        return self._virtual

    def _select(self, timeout: float | None = None):
        if timeout:
            self._virtual += timeout
        return self._real(0)


def run(main) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(asyncio.wait_for(main(loop), 10_000))
    finally:
        loop.close()


def cluster_on(loop: VirtualLoop) -> SimulatedCluster:
    return SimulatedCluster(name="a", region="eu-west-1", nodes=[NodeShape(name="n")], clock=lambda: 1_800_000_000 + loop.time(), seed=1)


def test_a_job_runs_and_is_watched_under_virtual_time():
    async def main(loop: VirtualLoop) -> None:
        cluster = cluster_on(loop)
        driver = Driver(cluster, clock=lambda: 1_800_000_000 + loop.time())
        transport = InProcessTransport(cluster)
        created = await transport.send("POST", JOBS, query={}, headers={}, body=job("train", steer={"duration": "600"}))
        assert created.status == 201
        watch = await transport.send("GET", JOBS, query={"watch": "true", "resourceVersion": "1"}, headers={}, body=None)
        async for chunk in watch.chunks():
            states = [json.loads(line)["object"]["status"] for line in chunk.splitlines()]
            if any(status.get("succeeded") for status in states):
                break
        watch.close()
        assert loop.time() == pytest.approx(600, abs=1)
        driver.stop()

    run(main)


def test_a_followed_log_is_read_to_its_end():
    async def main(loop: VirtualLoop) -> None:
        cluster = cluster_on(loop)
        driver = Driver(cluster, clock=lambda: 1_800_000_000 + loop.time())
        transport = InProcessTransport(cluster)
        await transport.send("POST", JOBS, query={}, headers={}, body=job("train", steer={"duration": "60", "logs": "a\nb\nc"}))
        await asyncio.sleep(1)
        pods = json.loads(await (await transport.send("GET", PODS, query={}, headers={}, body=None)).read())["items"]
        path = f"{PODS}/{pods[0]['metadata']['name']}/log"
        log = await transport.send("GET", path, query={"follow": "true"}, headers={}, body=None)
        assert await log.read() == b"a\nb\nc\n"
        assert loop.time() == pytest.approx(60, abs=1)
        driver.stop()
        await transport.close()

    run(main)


def test_faults_delay_and_break():
    async def main(loop: VirtualLoop) -> None:
        cluster = cluster_on(loop)
        transport = InProcessTransport(cluster)
        transport.faults.add(Fault(method="POST", action="apply_then_drop", delay=5))
        with pytest.raises(ConnectionError):
            await transport.send("POST", CONFIG_MAPS, query={}, headers={}, body=config_map("x"))
        assert loop.time() == 5
        answer = await transport.send("GET", f"{CONFIG_MAPS}/x", query={}, headers={}, body=None)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"

    run(main)


def test_a_stopped_driver_lets_the_cluster_stand_still():
    async def main(loop: VirtualLoop) -> None:
        cluster = cluster_on(loop)
        driver = Driver(cluster, clock=lambda: 1_800_000_000 + loop.time())
        driver.stop()
        cluster.request("POST", JOBS, {}, {}, json.dumps(job("train")).encode())
        await asyncio.sleep(60)
        assert cluster.started == []

    run(main)
