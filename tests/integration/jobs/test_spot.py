"""Jobs that wait for a price stand in nobody's way, and run where they were meant to."""

import asyncio
from decimal import Decimal

from shared.jobs.model import WaitKind
from shared.jobs.states import State
from tests.integration.region import REGION, job

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


class OnePrice:
    """Spot capacity of any type costs the same."""

    def __init__(self, price: str) -> None:
        self.asked = 0
        self._price = Decimal(price)

    async def price(self, region: str, instance_type: str) -> Decimal:
        self.asked += 1
        return self._price


async def test_a_plain_job_is_claimed_at_once_beside_twenty_that_wait_for_a_price(region):
    """Case 25: 20 jobs waiting for a spot price at priority 100, one plain job at priority 0."""
    prices = OnePrice("9.00")
    spot = {"max_spot_price": Decimal("1.50"), "spot_instance_type": "g5.12xlarge", "priority": 100}
    waiting = [await region.submit(manifest=job(f"spot-{number}"), **spot) for number in range(20)]
    await region.sweeper(prices)
    await region.until_true(lambda: prices.asked >= 20)
    plain = await region.submit(manifest=job("plain"), priority=0)

    assert [entry.job_id for entry in await region.core.store.ready(REGION, 30)] == [plain.id]
    await region.dispatcher()
    await region.observer()
    await region.until(plain.id, State.SUCCEEDED, seconds=5)

    heads = (await region.core.store.heads([head.id for head in waiting])).values()
    assert {(head.state, head.fence, head.wait.kind) for head in heads} == {(State.QUEUED, 0, WaitKind.SPOT)}
    assert {head.spot.observed_price for head in heads} == {Decimal("9.00")}


async def test_a_job_whose_price_is_right_runs_on_spot_machines_of_its_type(region):
    """Case 25, the other half: under the cap it goes, and to where that price holds."""
    manifest = job("spot", hang="true")
    manifest["spec"]["template"]["spec"]["tolerations"] = [TOLERATION]
    await region.dispatcher()
    await region.observer()
    await region.sweeper(OnePrice("1.20"))

    head = await region.submit(manifest=manifest, max_spot_price=Decimal("1.50"), spot_instance_type="g5.12xlarge")
    await region.until(head.id, State.RUNNING)

    pods = (await region.api.request("GET", "/api/v1/namespaces/gco-jobs/pods"))["items"]
    nodes = await asyncio.gather(*(region.api.request("GET", f"/api/v1/nodes/{pod['spec']['nodeName']}") for pod in pods))
    labels = [node["metadata"]["labels"] for node in nodes]
    assert [(one["node.kubernetes.io/instance-type"], one["karpenter.sh/capacity-type"]) for one in labels] == [("g5.12xlarge", "spot")]
