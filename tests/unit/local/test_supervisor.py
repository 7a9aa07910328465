"""Children are started in stages, started again when they die, and gone at the end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from workers.local import logfiles
from workers.local.child import Child, ChildFailedError, ChildSpec
from workers.local.supervisor import Supervisor

SLEEP = "import time; print('ready', flush=True); time.sleep(600)"


async def ready(child: Child) -> bool:
    return "ready" in logfiles.tail(child.log, begin=child.log_begin)


def spec(name: str, code: str = SLEEP, **more: Any) -> ChildSpec:
    values = {"environment": dict(os.environ), "stage": 0, "ready": ready, "stop_seconds": 5.0, "start_seconds": 20.0} | more
    return ChildSpec(name=name, arguments=[sys.executable, "-S", "-c", code], **values)


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        await asyncio.sleep(0.01)


@pytest.fixture
async def supervisor(tmp_path: Path) -> Any:
    one = Supervisor(logs=tmp_path)
    yield one
    await one.stop()


async def test_a_stage_begins_only_when_the_one_before_is_ready(supervisor: Supervisor, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = f"import pathlib, time; time.sleep(0.2); pathlib.Path({str(mark)!r}).touch(); print('ready', flush=True); time.sleep(600)"
    second = f"import pathlib, time; assert pathlib.Path({str(mark)!r}).exists(); print('ready', flush=True); time.sleep(600)"

    await supervisor.start([spec("second", second, stage=1), spec("first", first, stage=0)])

    assert all(child.pid for child in supervisor.children.values())


async def test_what_is_killed_is_started_again_under_another_pid(supervisor: Supervisor) -> None:
    await supervisor.start([spec("worker")])
    child = supervisor.children["worker"]

    killed = supervisor.kill("worker")

    await until(lambda: child.pid not in {None, killed})
    assert supervisor.restarts == 1


async def test_what_is_killed_again_and_again_is_back_at_once_each_time(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.local.supervisor.LONGEST_PAUSE", 600.0)
    await supervisor.start([spec("worker")])
    child = supervisor.children["worker"]

    for starts in range(2, 8):
        supervisor.kill("worker")
        await until(lambda starts=starts: child.starts == starts and child.ready)


async def test_what_dies_before_it_is_ready_waits_longer_each_time(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    good = tmp_path / "good"
    good.touch()
    code = f"import pathlib, time; pathlib.Path({str(good)!r}).exists() or exit(1); print('ready', flush=True); time.sleep(600)"
    await supervisor.start([spec("worker", code, ready=never_slow)])
    good.unlink()
    monkeypatch.setattr("workers.local.supervisor.asyncio.sleep", note)

    supervisor.kill("worker")

    await until(lambda: supervisor.children["worker"].starts >= 9)
    assert [one for one in pauses if one >= 0.1][:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def never_slow(child: Child) -> bool:
    """As `ready`, but waits for the answer itself, so that the pauses of a supervisor are the only ones."""
    while child.pid is not None and not await ready(child):
        await asyncio.sleep(0)
    return child.pid is not None


async def test_what_cannot_start_is_told_with_the_end_of_its_log_and_leaves_nothing(supervisor: Supervisor) -> None:
    with pytest.raises(ChildFailedError, match=r"(?s)broken ended with exit code 3.*no such table") as caught:
        await supervisor.start([spec("sound"), spec("broken", "import sys; print('no such table', file=sys.stderr); sys.exit(3)")])

    assert caught.value.name == "broken"
    assert supervisor.children["sound"].pid is None


async def test_what_does_not_get_ready_in_time_is_told(supervisor: Supervisor) -> None:
    with pytest.raises(ChildFailedError, match="was not ready after 0 s"):
        await supervisor.start([spec("slow", "import time; time.sleep(600)", start_seconds=0.1)])


async def test_what_gets_ready_late_after_a_restart_is_ready(supervisor: Supervisor) -> None:
    asked: list[float] = []

    async def late(child: Child) -> bool:
        if child.starts == 1:
            return True
        asked.append(time.monotonic())
        return asked[-1] - asked[0] > 0.5

    await supervisor.start([spec("worker", ready=late, start_seconds=0.1)])

    supervisor.kill("worker")

    await until(lambda: supervisor.children["worker"].starts == 2 and supervisor.children["worker"].ready)


async def test_the_death_of_a_vital_child_is_the_end(supervisor: Supervisor) -> None:
    await supervisor.start([spec("vital", vital=True)])

    supervisor.kill("vital")

    with pytest.raises(ChildFailedError, match="vital was ended by SIGKILL"):
        async with asyncio.timeout(20):
            await supervisor.until_broken()
    assert supervisor.restarts == 0


async def test_stop_ends_what_ignores_sigterm_and_what_it_started_itself(supervisor: Supervisor) -> None:
    code = (
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "p = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)']); print('ready', p.pid, flush=True); p.wait()"
    )
    await supervisor.start([spec("stubborn", code, stop_seconds=0.2)])
    child = supervisor.children["stubborn"]
    grandchild = psutil.Process(int(logfiles.tail(child.log).split()[1]))

    await supervisor.stop()

    assert child.pid is None
    await until(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


async def test_the_last_stage_is_stopped_first(supervisor: Supervisor, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    code = (
        "import signal, sys, time\n"
        "def end(*_):\n open({journal!r}, 'a').write('{name} '); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(600)"
    )
    names = ["base", "middle", "top"]
    await supervisor.start([spec(name, code.format(journal=str(journal), name=name), stage=stage) for stage, name in enumerate(names)])

    await supervisor.stop()

    assert journal.read_text().split() == names[::-1]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own leash")
def test_children_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from pathlib import Path
from tests.unit.local.test_supervisor import spec
from workers.local.supervisor import Supervisor
async def main():
    one = Supervisor(logs=Path({str(tmp_path)!r}))
    await one.start([spec("a"), spec("b")])
    print(*(child.pid for child in one.children.values()), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    with psutil.Popen([sys.executable, "-c", code], stdout=-1, text=True) as parent:
        children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)

    assert len(children) == 2
    _, alive = psutil.wait_procs(children, timeout=20)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
