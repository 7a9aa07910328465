"""Archives whose bytes depend on what is in them and on nothing else, so that a function whose code hasn't changed isn't deployed anew."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip can tell."""
_MODE: Final = 0o100644
"""A plain file that everybody may read: the user whom Lambda runs a function as is nobody's owner."""
_UNIX: Final = 3


def lay_out(folder: Path, contents: Mapping[str, bytes]) -> Path:
    """Write files by their paths into a folder, as Lambda unpacks them; gives it back."""
    for name, data in contents.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return folder


def write(path: Path, contents: Mapping[str, bytes]) -> str:
    """Write a zip of files by their paths, in their order; gives the SHA-256 of its bytes. A build that ends early leaves none behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    under_way = path.with_suffix(".part")
    with ZipFile(under_way, "w") as archive:
        for name in sorted(contents):
            entry = ZipInfo(name, _TIME)
            entry.compress_type = ZIP_DEFLATED
            entry.create_system = _UNIX
            entry.external_attr = _MODE << 16
            archive.writestr(entry, contents[name])
    under_way.replace(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()
