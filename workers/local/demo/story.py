"""The course of the demo: start, send, kill, cancel, wait, count, and look at what the consumers made of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import httpx
from rich.console import Console

from shared.errors import FleetError
from workers.local import history
from workers.local.child import ChildFailedError
from workers.local.demo import aftermath
from workers.local.demo.board import Board, summary
from workers.local.demo.examples import NoExamplesError, load_examples
from workers.local.demo.figures import Figure, figures
from workers.local.demo.parcels import COUNT, Fate, Parcel, Way, parcels
from workers.local.demo.receiver import Receiver
from workers.local.demo.senders import ApiSender, Sent, drop_on_queue
from workers.local.demo.state import TERMINAL, Seen, look
from workers.local.fleet import EmbeddedFleet
from workers.local.options import Options

DEADLINE_SECONDS = 120.0
"""Then it is over, whatever is missing; the figures will say what."""
KILL_AFTER = 10
"""So many jobs must have been applied before a dispatcher is killed, and as many must still be waiting."""
KILL_AT_LAST = 20
"""When so many have ended, it is killed in any case."""
SETTINGS = {"GPUFLEET_LEASE_SECONDS": "4", "GPUFLEET_SWEEP_SECONDS": "1", "GPUFLEET_DISPATCH_SLOTS": "4"}
"""Short leases, so that what the killed dispatcher held is taken over soon; few slots, so that jobs queue and there is something to see."""


async def run(console: Console) -> int:
    """Run the demo; returns the exit code: 0 only if every figure is right."""
    try:
        examples = load_examples()
        console.print("starting an AWS emulator, two simulated clusters, the API and the workers …")
        begun = time.monotonic()
        async with EmbeddedFleet(Options(settings=SETTINGS)) as fleet:
            console.print(f"the fleet stands after {time.monotonic() - begun:.1f} s: {len(fleet.processes)} processes", highlight=False)
            wanted = parcels(examples, fleet.options.regions)
            async with (
                httpx.AsyncClient(base_url=fleet.api_url, timeout=30, trust_env=False) as client,
                Receiver(secret=aftermath.new_secret()) as receiver,
            ):
                await aftermath.subscribe(client, receiver)
                with Board(console, wanted, fleet.options.regions) as board:
                    demo = Demo(fleet, client, board, wanted)
                    found, seconds = await demo.run()
                    board.note("looking at what the consumers have made of it: webhooks, costs, metrics")
                    after = await aftermath.gather(client, receiver, demo.seen, fleet.options.regions, fleet.gpus)
            aftermath.show(console, after)
            return 0 if summary(console, [*found, *after.figures], seconds) else 1
    except (ChildFailedError, FleetError, NoExamplesError, httpx.HTTPError) as error:
        console.print(f"error: {error}", markup=False, style="red")
    except ExceptionGroup as group:
        for one in group.exceptions:
            console.print(f"error: {one or type(one).__name__}", markup=False, style="red")
    return 1


class Demo:
    """One run over a fleet that stands."""

    def __init__(self, fleet: EmbeddedFleet, client: httpx.AsyncClient, board: Board, wanted: Sequence[Parcel]) -> None:
        self._fleet = fleet
        self._client = client
        self._board = board
        self._parcels = wanted
        self._sent = Sent()
        self._killed: list[str] = []
        self._cancelled = False
        self.seen = Seen()
        """The jobs and rejections as they were seen last."""

    async def run(self) -> tuple[list[Figure], float]:
        """Send everything, see it to its end, count; the figures, and how many seconds it took."""
        begun = time.monotonic()
        self._board.note(f"sending {COUNT} jobs: half through the API, half dropped on the queue")
        async with asyncio.TaskGroup() as group:
            guard = group.create_task(self._fleet.supervisor.until_broken())
            sending = group.create_task(self._send())
            self.seen = seen = await self._follow(begun + DEADLINE_SECONDS)
            await sending
            guard.cancel()
        seconds = time.monotonic() - begun
        ran = history.executions(await history.read(self._fleet.layout.cluster_ports.values()))
        restarts = self._fleet.supervisor.restarts
        return figures(self._parcels, self._sent, seen, ran, self._killed, restarts), seconds

    async def _send(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ApiSender(self._client, self._sent).send(self._of(Way.API)))
            group.create_task(drop_on_queue(self._of(Way.QUEUE), self._fleet.aws_env, "gpufleet-submissions"))
        self._board.note("all sent")

    def _of(self, way: Way) -> list[Parcel]:
        return [parcel for parcel in self._parcels if parcel.way is way]

    async def _follow(self, until: float) -> Seen:
        """Look at the jobs until all have ended, and do meanwhile what is to be done."""
        seen = Seen()
        while time.monotonic() < until:
            try:
                seen = await look(self._client)
            except httpx.HTTPError as error:
                self._board.note(f"the API did not answer: {error!r}")
                await asyncio.sleep(0.4)
                continue
            self._board.show(seen)
            if seen.complete(self._parcels, len(self._sent.refused)):
                break
            self._kill(seen)
            await self._cancel(seen)
            await asyncio.sleep(0.4)
        return seen

    def _kill(self, seen: Seen) -> None:
        """Kill a dispatcher while it has its hands full: claims of its own, and more jobs to claim."""
        if self._killed or not (_busy(seen) or seen.count(*TERMINAL) >= KILL_AT_LAST):
            return
        states = seen.states()
        busiest = max(
            self._fleet.options.regions, key=lambda region: (states.get((region, "claimed"), 0), states.get((region, "queued"), 0))
        )
        victim = f"dispatcher-{busiest}-1"
        pid = self._fleet.kill(victim)
        self._killed.append(victim)
        claims = states.get((busiest, "claimed"), 0)
        self._board.note(f"kill -9 {pid}: {victim} is gone; it held {claims} claim{'s' if claims != 1 else ''}")

    async def _cancel(self, seen: Seen) -> None:
        if self._cancelled:
            return
        (parcel,) = (parcel for parcel in self._parcels if parcel.fate is Fate.CANCELLED)
        for job in seen.of(parcel):
            if job["status"] == "running":
                response = await self._client.delete(f"/api/v1/queue/jobs/{job['job_id']}", params={"reason": "the demo wants it so"})
                response.raise_for_status()
                self._cancelled = True
                self._board.note(f"cancelled {job['job_id']} while it runs")


def _busy(seen: Seen) -> bool:
    applied = seen.count("pending", "running", *TERMINAL)
    return applied >= KILL_AFTER and seen.count("queued") >= KILL_AFTER and seen.count("claimed") > 0
