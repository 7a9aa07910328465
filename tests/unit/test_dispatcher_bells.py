"""A bell that is answered before the index shows its job is answered again."""

import asyncio
import json

from shared.queues.queue import Message
from workers.dispatcher import loop as dispatcher_loop
from workers.dispatcher.loop import DispatcherLoop


class OneBell:
    """A queue that rings once, and then is silent."""

    url = "dispatch"

    def __init__(self, job_id: str) -> None:
        self.messages = [Message(id="m", body=json.dumps({"kind": "ready", "job_id": job_id}), receipt="r")]

    async def receive(self, *, visibility: int) -> list[Message]:
        if not self.messages:
            await asyncio.Event().wait()
        return [self.messages.pop()]

    async def delete(self, messages: list[Message]) -> None:
        assert messages


class LateIndex:
    """A ready list in which a job appears at the third look."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.looks = 0
        self.found = asyncio.Event()

    async def claim(self, limit: int) -> tuple[list, bool]:
        self.looks += 1
        if self.looks == 3:
            self.found.set()
        return [], False

    def has_seen(self, job_id: str) -> bool:
        return job_id == self.job_id and self.looks >= 3


async def test_a_bell_whose_job_the_index_does_not_show_yet_is_echoed(monkeypatch):
    monkeypatch.setattr(dispatcher_loop, "ECHO_SECONDS", 0.01)
    dispatch = LateIndex("job-1")
    stop = asyncio.Event()
    loop = DispatcherLoop(
        queue=OneBell("job-1"), dead_letters=None, dispatch=dispatch, stopping=None, waking=None, slots=4, grace_seconds=0.1
    )
    running = asyncio.create_task(loop.run(stop))

    async with asyncio.timeout(5):
        await dispatch.found.wait()

    stop.set()
    await running
