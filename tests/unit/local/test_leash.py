"""The leash of platforms whose kernel has none: a pipe that ends with the parent."""

import signal
import subprocess
import sys

import psutil
import pytest

from workers.local import leash

WATCHED = f"""
import sys; sys.path.insert(0, {str(leash.__file__.rsplit("/", 1)[0])!r})
import leash
leash._watch(sys.argv[1:])
"""


def start(code: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WATCHED, sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def test_the_program_is_killed_when_the_pipe_ends() -> None:
    with start(SLEEP) as watcher:
        assert watcher.stdout is not None
        child = psutil.Process(int(watcher.stdout.readline()))
        assert watcher.stdin is not None
        watcher.stdin.close()

        assert watcher.wait(timeout=20) == 128 + signal.SIGKILL
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running()


def test_sigterm_is_handed_on() -> None:
    with start(SLEEP) as watcher:
        assert watcher.stdout is not None
        watcher.stdout.readline()
        watcher.terminate()

        assert watcher.wait(timeout=20) == 128 + signal.SIGTERM


@pytest.mark.parametrize("code", [0, 7])
def test_the_exit_code_is_the_programs(code: int) -> None:
    with start(f"raise SystemExit({code})") as watcher:
        assert watcher.wait(timeout=20) == code


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own leash")
def test_a_program_whose_parent_has_gone_already_does_not_begin() -> None:
    command = [sys.executable, "-S", "-E", leash.__file__, "1", sys.executable, "-c", "print('begun')"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
