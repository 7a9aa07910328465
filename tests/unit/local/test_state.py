"""The state directory: one fleet at a time, and nothing stale after one that was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from workers.local.demo import story
from workers.local.fleet import EmbeddedFleet
from workers.local.options import Options
from workers.local.refusals import UnusableError
from workers.local.state import StateDirectory

HOLD = """
import sys; from pathlib import Path; from workers.local.state import StateDirectory
held = StateDirectory(Path(sys.argv[1])); print("held", flush=True); sys.stdin.read()
"""


def test_a_second_fleet_is_refused_with_the_directory_and_the_process_that_has_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        (tmp_path / "kubeconfig").write_text("the first's")

        with pytest.raises(UnusableError, match=rf"--state: {tmp_path}: is held by a fleet that runs, process {first.pid};"):
            StateDirectory(tmp_path)

        first.send_signal(signal.SIGKILL)
        first.wait()
    assert (tmp_path / "kubeconfig").read_text() == "the first's"
    StateDirectory(tmp_path).release()


def test_a_secret_is_for_its_owner_alone_whatever_stood_there(tmp_path: Path) -> None:
    held = StateDirectory(tmp_path)
    (tmp_path / "admin.key").write_text("open to everybody")
    (tmp_path / "admin.key").chmod(0o666)
    with (tmp_path / "admin.key").open() as opened_before:
        kept = held.keep_secret("admin.key", "gpf_x")
        assert opened_before.read() == "open to everybody"
    held.release()

    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("gpf_x\n", 0o600)


async def test_a_fleet_touches_nothing_in_a_directory_that_another_has(tmp_path: Path) -> None:
    held = StateDirectory(tmp_path)
    held.prepare()
    log = tmp_path / "logs" / "api.log"
    log.write_text("the first's")

    with pytest.raises(UnusableError, match=f"process {os.getpid()}"):
        async with EmbeddedFleet(Options(state=tmp_path)):
            pass

    assert log.read_text() == "the first's"
    assert not (tmp_path / "spot-prices.json").exists()
    held.release()


def test_a_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    held = StateDirectory(tmp_path)
    code = "print('runs', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout is not None
        child.stdout.readline()
        os.close(held._file)  # as when this process is killed

        StateDirectory(tmp_path).release()
        child.kill()


def test_what_can_be_no_directory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")

    for place in (file, file / "below", Path("/proc/x"), tmp_path / ("x" * 300)):
        with pytest.raises(UnusableError, match=f"--state: {place}: must be a directory that can be written: "):
            StateDirectory(place)


def test_a_directory_with_something_else_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")

    held = StateDirectory(tmp_path)

    with pytest.raises(UnusableError, match="must be a directory that can be written"):
        held.prepare()
    held.release()


async def test_the_demo_has_a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Options] = []

    class Fleet(EmbeddedFleet):
        def __init__(self, options: Options, **_: Any) -> None:
            asked.append(options)
            raise story.NoExamplesError

    monkeypatch.setattr(story, "EmbeddedFleet", Fleet)
    monkeypatch.chdir(tmp_path)

    await story.run(Console(quiet=True))

    assert [options.state for options in asked] == [None]
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - in a loop of asyncio
