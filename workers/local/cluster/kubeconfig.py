"""A kubeconfig file for simulated clusters: one context for each region, named as the region."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml


def write_kubeconfig(path: Path, urls: Mapping[str, str], *, token: str | None = None) -> None:
    """Write the file, readable by its owner only; `urls` maps each region to its server. The first one is current.

    `token` says who asks, where the servers hold their callers to rights (`access`).
    """
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(urls), ""),
        "clusters": [{"name": region, "cluster": {"server": url}} for region, url in urls.items()],
        "users": [{"name": "simulated", "user": {"token": token} if token is not None else {}}],
        "contexts": [{"name": region, "context": {"cluster": region, "user": "simulated"}} for region in urls],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
