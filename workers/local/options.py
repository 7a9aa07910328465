"""What an embedded fleet is made of, as its user asks for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workers.local.refusals import Refusal, UnusableError

DEFAULT_NODES = "2xg5.12xlarge,1xp4d.24xlarge,1xg5.12xlarge:spot,2xm7i.48xlarge,1xg4ad.16xlarge"
"""Per region: 20 GPUs of NVIDIA, 4 of AMD, and plenty of processors, so that a day's work of the examples finds room."""

_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z0-9]+)+-[0-9]+")
"""Names of AWS regions: us-east-1, us-gov-west-1, ap-southeast-5."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How many of what. `api_port` None takes any free one; `kubeconfig`, with a context per region, puts real clusters in place of
    simulated ones."""

    regions: tuple[str, ...] = ("us-east-1", "eu-west-1")
    nodes: str = DEFAULT_NODES
    dispatchers: int = 1
    """Per region."""
    api_port: int | None = None
    api_host: str = "127.0.0.1"
    """Where the API listens; anywhere else than on the loopback interface only with an identity source."""
    kubeconfig: Path | None = None
    state: Path | None = None
    """Where logs and the kubeconfig go; None makes a temporary directory that goes with the fleet."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """More environment of the workers, such as GPUFLEET_LEASE_SECONDS."""

    def __post_init__(self) -> None:
        refusals = [Refusal("--regions", ",".join(self.regions), rule) for rule in _faults_of_regions(self.regions)]
        if not 1 <= self.dispatchers <= 32:
            refusals.append(Refusal("--dispatchers", str(self.dispatchers), "must be from 1 to 32 for each region"))
        if self.kubeconfig is None:
            from workers.local.cluster.node_shapes import parse_shapes

            try:
                parse_shapes(self.nodes)
            except ValueError as error:
                refusals.append(Refusal("--nodes", self.nodes, str(error)))
        if refusals:
            raise UnusableError(refusals)


def _faults_of_regions(regions: tuple[str, ...]) -> list[str]:
    if not regions:
        return ["must name at least one region"]
    wrong = [region for region in regions if not _REGION.fullmatch(region)]
    if wrong:
        return [f"must be names of regions such as us-east-1, separated by commas; {wrong[0] or 'nothing between two commas'} is none"]
    if len(set(regions)) != len(regions):
        return ["must name each region once"]
    return []
