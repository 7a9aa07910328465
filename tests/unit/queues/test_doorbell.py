"""Rings that come together are told together, and none is ever told too early."""

import asyncio
import json

from shared.queues.doorbell import SqsDoorbell


class SlowQueue:
    """A queue whose sends end when the test lets them."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.gate = asyncio.Event()

    async def send(self, body: str, *, delay: float, group: str | None) -> None:
        self.sent.append(json.loads(body)["job_id"])
        await self.gate.wait()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_rings_during_a_send_are_told_by_one_further_message_sent_after_them():
    queue = SlowQueue()
    bell = SqsDoorbell({"r": queue})
    first = asyncio.create_task(bell.ring("r", "a"))
    await turns()
    more = [asyncio.create_task(bell.ring("r", job_id)) for job_id in "bcd"]
    await turns()

    assert queue.sent == ["a"]
    queue.gate.set()
    await asyncio.gather(first, *more)
    assert queue.sent == ["a", "b"]


async def test_a_ring_in_any_moment_of_another_s_end_is_sent():
    """A ring that came as a send was ending once stood for all that followed, and none of them was sent."""
    queue = SlowQueue()
    bell = SqsDoorbell({"r": queue})
    for steps in range(8):
        queue.gate = asyncio.Event()
        ring = asyncio.create_task(bell.ring("r", f"first-{steps}"))
        await turns()
        queue.gate.set()
        await turns(steps)
        await bell.ring("r", f"second-{steps}")
        await ring
        await bell.ring("r", f"third-{steps}")

        assert {f"first-{steps}", f"second-{steps}", f"third-{steps}"} <= set(queue.sent)
