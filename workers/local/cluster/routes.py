"""From a path to what it means: kind, namespace, name and subresource."""

from __future__ import annotations

from dataclasses import dataclass

from workers.local.cluster.kinds import Catalogue, Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """What a request is about. `namespace` is empty for cluster-scoped kinds and for "all namespaces"."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Router:
    """Reads the paths of the kinds of a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def find(self, path: str) -> Route | None:
        """The route of a path such as `/apis/batch/v1/namespaces/default/jobs/train/status`, or None."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) >= 3:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) >= 4:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        if rest[0] == "namespaces" and len(rest) >= 3:
            kind = self._catalogue.served_at(group, version, rest[2])
            if kind is not None and kind.namespaced:
                return _route(kind, rest[1], rest[3:])
        kind = self._catalogue.served_at(group, version, rest[0])
        if kind is None or (kind.namespaced and len(rest) > 1):
            return None
        return _route(kind, "", rest[1:])


def _route(kind: Kind, namespace: str, rest: list[str]) -> Route | None:
    name = rest[0] if rest else ""
    subresource = rest[1] if len(rest) > 1 else ""
    if len(rest) > 2 or (subresource and subresource not in kind.subresources):
        return None
    return Route(kind=kind, namespace=namespace, name=name, subresource=subresource)
