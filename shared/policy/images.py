"""Image references: what they really name, and whether that source is trusted.

`nginx`, `library/nginx`, `docker.io/nginx` and `index.docker.io/library/nginx` are one image to a container runtime, so a reference is
normalised as the runtime does before it is judged. The grammar is that of github.com/distribution/reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

DOCKER_HUB: Final = "docker.io"

_ALIASES: Final = {"index.docker.io": DOCKER_HUB, "registry-1.docker.io": DOCKER_HUB}
_HOST: Final = re.compile(
    r"(?:[a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9])(?:\.(?:[a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9]))*(?::[0-9]{1,5})?|\[[0-9a-f:]+\](?::[0-9]{1,5})?",
    re.IGNORECASE,
)
_REPOSITORY: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST: Final = 1024

RULE: Final = "must be an image reference: [registry[:port]/]repository[:tag][@digest], the repository in lower case"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """An image by its full name: `registry` is never empty, and `repository` has `library/` before an official image of Docker Hub."""

    registry: str
    repository: str


def parse_reference(image: str) -> Reference | None:
    """Return what a reference names, or None if it is none."""
    name, at, digest = image.partition("@")
    if len(image) > _LONGEST or (at and _DIGEST.fullmatch(digest) is None):
        return None
    name, tag = _without_tag(name)
    if tag is not None and _TAG.fullmatch(tag) is None:
        return None
    registry, repository = _split_registry(name)
    if _HOST.fullmatch(registry) is None or _REPOSITORY.fullmatch(repository) is None or _IDENTIFIER.fullmatch(repository):
        return None
    registry = _ALIASES.get(registry.lower(), registry.lower())
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(registry=registry, repository=repository)


def trusted(reference: Reference, *, registries: tuple[str, ...], dockerhub_orgs: tuple[str, ...]) -> bool:
    """Whether an image comes from a trusted registry, path of a registry, or organisation of Docker Hub."""
    full = f"{reference.registry}/{reference.repository}"
    entries = tuple(entry.rstrip("/") for entry in registries)
    if reference.registry == DOCKER_HUB:
        organisation = reference.repository.partition("/")[0]
        if organisation == "library" or organisation in dockerhub_orgs:
            return True
        entries = tuple(entry for entry in entries if entry != DOCKER_HUB)
    return any(full.startswith(entry + "/") or full == entry for entry in entries)


def _without_tag(name: str) -> tuple[str, str | None]:
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, None)


def _split_registry(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        return first, rest
    return DOCKER_HUB, name
