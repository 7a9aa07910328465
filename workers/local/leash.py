"""Runs a program that dies with its parent: `python -S -E leash.py PARENT-PID PROGRAM ARGUMENT…`.

A supervisor that is killed can't stop its children any more; without a leash they would stay behind and hold their ports. On Linux the
kernel does it (`PR_SET_PDEATHSIG`, kept over `execve`, so this script becomes the program). Elsewhere the script stays beside the program
and waits for the end of its standard input, a pipe whose other end only the parent holds.

Runs as a script, before anything is installed or imported, so it uses nothing but a few modules of the standard library.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""From `linux/prctl.h`."""


def main(arguments: list[str]) -> None:
    """Become, or watch over, the program that is named in the arguments."""
    parent, program = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        _tie_to_parent()
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)
        os.execvp(program[0], program)  # noqa: S606 - no shell is wanted
    else:
        _watch(program)


def _tie_to_parent() -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def _watch(program: list[str]) -> None:
    """Run the program until it ends or the pipe does; SIGTERM and SIGINT are handed on."""
    import subprocess
    import threading

    early: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: early.append(received))
    with subprocess.Popen(program, stdin=subprocess.DEVNULL) as child:  # noqa: S603 - the supervisor's own command line

        def kill_when_alone() -> None:
            while os.read(0, 1024):
                continue
            child.kill()

        threading.Thread(target=kill_when_alone, daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, _frame: child.send_signal(received))
        for received in early:
            child.send_signal(received)
        code = child.wait()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
