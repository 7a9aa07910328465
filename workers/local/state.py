"""The state directory of a fleet: its log files, kubeconfig and prices. One fleet at a time has it.

Who has it is said by a lock of the kernel on a file in it, which ends with the process, however that ends; so nothing stale is ever left.
Two fleets in one directory would overwrite each other's kubeconfig, and restarted workers of the one would use the clusters of the other.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from workers.local.refusals import Refusal, UnusableError
from workers.secret_files import write_secret

LOCK = "lock"


class StateDirectory:
    """A state directory that is held until `release`. Raises UnusableError where another process holds it or it can't be written."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Python's files are not inherited by children, so the lock ends with this process and not with a worker that outlives it.
            self._file = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise self._held(holder) from error
        except OSError as error:
            os.close(self._file)
            raise self._unusable(error) from error

    def prepare(self) -> None:
        """Make what is in it, and remove the log files of a fleet before. Raises UnusableError."""
        try:
            for part in ("logs", "scratch"):
                (self.path / part).mkdir(parents=True, exist_ok=True)
            for log in (self.path / "logs").glob("*.log"):
                log.unlink()
        except OSError as error:
            raise self._unusable(error) from error

    def keep_secret(self, name: str, text: str) -> Path:
        """Write a secret that nobody but this user can read. Raises UnusableError."""
        path = self.path / name
        try:
            write_secret(path, text)
        except OSError as error:
            raise self._unusable(error) from error
        return path

    def release(self) -> None:
        """Let others have it. The file stays: removing it would let two processes lock two files of one name."""
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)

    def _held(self, holder: str) -> UnusableError:
        rule = f"is held by a fleet that runs, process {holder or 'unknown'}; another one needs --state and --api-port of its own"
        return UnusableError([Refusal("--state", str(self.path), rule)])

    def _unusable(self, error: OSError) -> UnusableError:
        return UnusableError([Refusal("--state", str(self.path), f"must be a directory that can be written: {error.strerror}")])
