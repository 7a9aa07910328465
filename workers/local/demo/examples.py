"""The manifests of `examples/`, as the demo sends them: each copy under names of its own, and steered to take a second, not an hour."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.clusters.manifests import load_documents

STEERING = "simulation.gpufleet.io/"
_HERE = Path(__file__).resolve()
_PLACES = (_HERE.parents[1] / "examples", _HERE.parents[3] / "examples")
"""In an installed package, and in a checkout."""


class NoExamplesError(Exception):
    """The directory with the examples isn't there."""

    def __init__(self) -> None:
        super().__init__(f"no examples: neither {' nor '.join(str(place) for place in _PLACES)} is a directory")


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One Job with what stands beside it."""

    file: str
    manifest: dict[str, Any]
    supporting: list[dict[str, Any]]

    @property
    def pods(self) -> int:
        """How many pods one execution starts when none of them fails."""
        return int(self.manifest["spec"].get("completions") or 1)

    def copy(self, number: int, steering: Mapping[str, str]) -> Example:
        """A copy under other names, so that two of them can live in one namespace, and with annotations for the simulated clusters."""
        names = {item["metadata"]["name"]: f"{item['metadata']['name']}-{number}" for item in self.supporting}
        manifest = _renamed(deepcopy(self.manifest), names)
        annotations = {f"{STEERING}{name}": value for name, value in steering.items()}
        metadata = manifest["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
        return Example(file=self.file, manifest=manifest, supporting=_renamed(deepcopy(self.supporting), names))

    def without_second_tries(self) -> Example:
        """The same, but a pod that fails fails the Job: it is the fleet that tries again."""
        manifest = deepcopy(self.manifest)
        manifest["spec"]["backoffLimit"] = 0
        return Example(file=self.file, manifest=manifest, supporting=self.supporting)


def load_examples() -> dict[str, Example]:
    """The examples by the names of their files, without the endings. Raises NoExamplesError."""
    place = next((place for place in _PLACES if place.is_dir()), None)
    if place is None:
        raise NoExamplesError
    found = {}
    for path in sorted(place.iterdir()):
        if path.suffix in {".yaml", ".json"}:
            documents = load_documents(path.read_bytes())
            jobs = [one for one in documents if one["kind"] == "Job"]
            beside = [one for one in documents if one["kind"] != "Job"]
            if len(jobs) == 1:  # not every manifest there is a job to submit
                found[path.stem] = Example(file=path.name, manifest=jobs[0], supporting=beside)
    return found


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Replace names wherever they stand as a whole value or after a dot, as in `$(GPUFLEET_JOB_NAME)-0.ddp-peers`."""
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    if isinstance(value, str):
        for old, new in names.items():
            if value == old or value.endswith(f".{old}"):
                return value[: len(value) - len(old)] + new
    return value
