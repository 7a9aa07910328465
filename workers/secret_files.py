"""Files with secrets in them."""

from __future__ import annotations

import os
from pathlib import Path


def write_secret(path: Path, text: str) -> None:
    """Write a secret that nobody but this user can read. Raises OSError.

    A file that is there already goes first: its mode, or somebody who has it open, would outlive what is written into it.
    """
    path.unlink(missing_ok=True)
    write_new_secret(path, text)


def write_new_secret(path: Path, text: str) -> None:
    """The same into a file that isn't there yet. Raises FileExistsError for one that is, a symbolic link too, and OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
