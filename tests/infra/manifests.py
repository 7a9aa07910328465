"""The Kubernetes manifests as they are applied: infra/kubernetes/base, in the order of its kustomization."""

from __future__ import annotations

from pathlib import Path

import yaml

BASE = Path(__file__).parents[2] / "infra" / "kubernetes" / "base"


def manifests() -> str:
    """All of them as one YAML text."""
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    return "\n---\n".join((BASE / name).read_text() for name in listed)
