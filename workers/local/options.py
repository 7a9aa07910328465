"""What an embedded fleet is made of, as its user asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_NODES = "2xg5.12xlarge,1xp4d.24xlarge,1xg5.12xlarge:spot,2xm7i.48xlarge"
"""Per region: 20 GPUs and plenty of processors, so that a day's work of the examples finds room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How many of what. `api_port` None takes any free one; `kubeconfig`, with a context per region, puts real clusters in place of
    simulated ones."""

    regions: tuple[str, ...] = ("us-east-1", "eu-west-1")
    nodes: str = DEFAULT_NODES
    dispatchers: int = 1
    """Per region."""
    api_port: int | None = None
    kubeconfig: Path | None = None
    state: Path | None = None
    """Where logs and the kubeconfig go; None makes a temporary directory that goes with the fleet."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """More environment of the workers, such as GPUFLEET_LEASE_SECONDS."""

    def __post_init__(self) -> None:
        if not self.regions:
            raise ValueError("a fleet has at least one region")
        if len(set(self.regions)) != len(self.regions):
            raise ValueError(f"each region once, not {', '.join(self.regions)}")
        if not 1 <= self.dispatchers <= 32:
            raise ValueError(f"from 1 to 32 dispatchers per region, not {self.dispatchers}")
