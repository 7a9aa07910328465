"""A kubeconfig for real clusters, looked at before anything is started: it must hold one context per region, named as the region.

Where it calls credential plugins, the workers get a copy that calls them outside of the workers' own environment (see `outside`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workers.local import outside

_FILES = {"clusters": ("cluster", ["certificate-authority"]), "users": ("user", ["client-certificate", "client-key", "tokenFile"])}
"""Fields that name files, relative to the kubeconfig's own directory."""


class KubeconfigError(Exception):
    """A kubeconfig can't be used; says why."""


def usable(path: Path, regions: Sequence[str], *, copy: Path) -> Path:
    """The kubeconfig that workers can use: the file itself, or, where it calls plugins, a copy of it. Raises KubeconfigError."""
    loaded = _load(path)
    _require_contexts(path, loaded, regions)
    users = [user for one in _named(loaded, "users") if isinstance(user := one.get("user"), dict)]
    plugins = [user["exec"] for user in users if isinstance(user.get("exec"), dict)]
    if not plugins:
        return path.absolute()
    for plugin in plugins:
        _call_outside(path, plugin)
    _make_absolute(path, loaded)
    _write(copy, loaded)
    return copy


def require_contexts(path: Path, regions: Sequence[str]) -> None:
    """Raises KubeconfigError unless the file has a context for every region."""
    _require_contexts(path, _load(path), regions)


def _load(path: Path) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: not YAML: {error}") from error
    return loaded if isinstance(loaded, dict) else {}


def _named(loaded: dict[str, Any], section: str) -> list[dict[str, Any]]:
    return [one for one in loaded.get(section) or [] if isinstance(one, dict)]


def _require_contexts(path: Path, loaded: dict[str, Any], regions: Sequence[str]) -> None:
    names = [str(one.get("name")) for one in _named(loaded, "contexts")]
    missing = [region for region in regions if region not in names]
    if missing:
        raise KubeconfigError(
            f"{path}: no context named {', '.join(missing)} (it has {', '.join(names) or 'none'}); "
            f"each region needs one of its name: kubectl config rename-context NAME {missing[0]}"
        )


def _call_outside(path: Path, plugin: dict[str, Any]) -> None:
    command = str(plugin.get("command", ""))
    if os.sep in command:  # relative to the kubeconfig; a bare name is looked for on the PATH
        command = str(path.absolute().parent / command)
    keep = ",".join(str(one.get("name")) for one in plugin.get("env") or [])
    plugin["args"] = ["-S", "-E", outside.__file__, keep, command, *(plugin.get("args") or [])]
    plugin["command"] = sys.executable


def _make_absolute(path: Path, loaded: dict[str, Any]) -> None:
    for section, (part, fields) in _FILES.items():
        for one in _named(loaded, section):
            found = one.get(part)
            for field in fields:
                if isinstance(found, dict) and found.get(field):
                    found[field] = str(path.absolute().parent / str(found[field]))


def _write(copy: Path, loaded: dict[str, Any]) -> None:
    import yaml

    copy.unlink(missing_ok=True)
    copy.touch(mode=0o600, exist_ok=False)
    copy.write_text(yaml.safe_dump(loaded, sort_keys=False), encoding="utf-8")
