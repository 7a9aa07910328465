"""A kubeconfig for real clusters, looked at before anything is started: it must hold one context per region, named as the region."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class KubeconfigError(Exception):
    """A kubeconfig can't be used; says why."""


def require_contexts(path: Path, regions: Sequence[str]) -> None:
    """Raises KubeconfigError unless the file has a context for every region."""
    import yaml

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: not YAML: {error}") from error
    contexts = loaded.get("contexts") if isinstance(loaded, dict) else None
    names = [str(one.get("name")) for one in contexts or [] if isinstance(one, dict)]
    missing = [region for region in regions if region not in names]
    if missing:
        raise KubeconfigError(
            f"{path}: no context named {', '.join(missing)} (it has {', '.join(names) or 'none'}); "
            f"each region needs one of its name: kubectl config rename-context NAME {missing[0]}"
        )
