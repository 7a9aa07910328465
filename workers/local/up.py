"""`gpufleet up`: an embedded fleet until somebody ends it, with a page that says where everything is."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shared.errors import FleetError
from workers.local.child import ChildFailedError
from workers.local.fleet import EmbeddedFleet
from workers.local.kubeconfig import KubeconfigError
from workers.local.options import Options
from workers.local.ports import PortTakenError
from workers.local.reaching import Found

if TYPE_CHECKING:
    from rich.console import Console

_STATUS_SECONDS = 2.0
_REFUSED = 2
_BROKEN = 1


async def run(options: Options, console: Console) -> int:
    """Run a fleet until SIGINT or SIGTERM; returns the exit code. Raises UnusableError where it can't be started as it was asked for."""
    stop = asyncio.Event()
    with _stopped_by_signals(stop):
        fleet = EmbeddedFleet(options, notice=lambda text: console.print(text, markup=False, style="yellow"))
        try:
            console.print("starting the fleet …")
            starting = asyncio.create_task(fleet.__aenter__())
            if not await _finished_before(starting, stop):
                return 0
            try:
                if await _shown(fleet, stop, console):
                    await _stand(fleet, stop, console)
            finally:
                console.print("stopping the fleet …")
                await fleet.__aexit__(None, None, None)
        except (PortTakenError, KubeconfigError) as error:
            console.print(f"error: {error}", markup=False, style="red")
            return _REFUSED
        except (ChildFailedError, FleetError) as error:
            console.print(f"error: {error}", markup=False, style="red")
            return _BROKEN
    return 0


@contextmanager
def _stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


async def _finished_before(task: asyncio.Task[Any], stop: asyncio.Event) -> bool:
    """Wait for a task, or for the wish to stop, which cancels the task."""
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()
        return True
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return False


async def _shown(fleet: EmbeddedFleet, stop: asyncio.Event, console: Console) -> bool:
    """Show the page, with a warning for each cluster that jobs will wait or fail for; False where the wish to stop came first."""
    asking = asyncio.create_task(fleet.look())
    if not await _finished_before(asking, stop):
        return False
    _page(fleet, console, asking.result())
    return True


def _page(fleet: EmbeddedFleet, console: Console, found: Mapping[str, Found]) -> None:
    for told in warnings_of(found):
        console.print(told, markup=False, highlight=False, style="bold yellow")
    lines = [
        f"API             {fleet.api_url}",
        f"  documentation {fleet.api_url}/docs",
        *([f"  key           {fleet.key_file}"] if fleet.key_file is not None else []),
        f"metrics         {fleet.layout.metrics_url}",
        f"AWS endpoint    {fleet.aws_env['AWS_ENDPOINT_URL']}",
        f"submissions     {fleet.queue_url}",
        f"KUBECONFIG      {fleet.kubeconfig}",
        f"log files       {fleet.logs}",
        "",
        "For a producer in another terminal:",
        *(f"  export {name}={value}" for name, value in fleet.aws_env.items()),
        f"  export GPUFLEET_API={fleet.api_url}",
        *([f"  export GPUFLEET_KEY=$(cat {shlex.quote(str(fleet.key_file))})"] if fleet.key_file is not None else []),
        "",
        "Ctrl-C ends all of it; jobs and queues are in memory and end with it.",
    ]
    console.print("\n".join(lines), markup=False, highlight=False)


def warnings_of(found: Mapping[str, Found]) -> Iterator[str]:
    """What to tell of real clusters before anybody submits a job."""
    for region, one in found.items():
        if one.fault is not None:
            yield f"WARNING: the cluster of {region} does not answer, so jobs of {region} wait until it does: {one.fault}"
        if one.missing:
            which = ", ".join(one.missing)
            yield f"WARNING: the cluster of {region} lacks namespaces that the policy allows, so jobs in them fail there: {which}"


async def _stand(fleet: EmbeddedFleet, stop: asyncio.Event, console: Console) -> None:
    """Show how it goes until the end; raises ChildFailedError when a vital part has died."""
    broken = asyncio.create_task(fleet.supervisor.until_broken())
    asked = asyncio.create_task(stop.wait())
    try:
        with console.status("") if console.is_terminal else contextlib.nullcontext() as status:
            while not asked.done():
                if status is not None:
                    status.update(_line(fleet))
                done, _ = await asyncio.wait([broken, asked], timeout=_STATUS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if broken in done:
                    broken.result()
    finally:
        for task in (broken, asked):
            task.cancel()


def _line(fleet: EmbeddedFleet) -> str:
    children = fleet.processes.values()
    running = sum(child.ready for child in children)
    again = fleet.supervisor.restarts
    return f"{running} of {len(children)} processes run" + (f", {again} started again" if again else "")
