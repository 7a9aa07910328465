"""What a server tells of itself: version, health, groups and resources; enough for the dynamic client and `kubectl`."""

from __future__ import annotations

from typing import Any

from workers.local.cluster.answers import TEXT, Response
from workers.local.cluster.kinds import Catalogue, Kind
from workers.local.cluster.objects import to_json

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0-gpufleet-simulated",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "simulated",
}
_SUBRESOURCE_VERBS = {"eviction": ["create"], "token": ["create"], "log": ["get"]}
_SUBRESOURCE_KINDS = {"eviction": "Eviction", "scale": "Scale", "token": "TokenRequest"}


class Discovery:
    """Answers the paths that describe the API; built once, since kinds don't change."""

    def __init__(self, catalogue: Catalogue) -> None:
        groups = [_group(name, versions) for name, versions in catalogue.groups().items()]
        pages: dict[str, Any] = {
            "/version": VERSION,
            "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        }
        for group in groups:
            pages[f"/apis/{group['name']}"] = {"kind": "APIGroup", "apiVersion": "v1", **group}
        for api_version in dict.fromkeys(kind.api_version for kind in catalogue.all):
            kinds = [kind for kind in catalogue.all if kind.api_version == api_version]
            path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            pages[path] = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": api_version,
                "resources": [resource for kind in kinds for resource in _resources(kind)],
            }
        self._pages = {path: Response(status=200, body=to_json(page)) for path, page in pages.items()}
        for path in ("/readyz", "/livez", "/healthz"):
            self._pages[path] = Response(status=200, headers=TEXT, body=b"ok")

    def page(self, path: str) -> Response | None:
        """The page at that path, or None."""
        return self._pages.get(path if path == "/" else path.rstrip("/"))


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(kind: Kind) -> list[dict[str, Any]]:
    main = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
    }
    subresources = [
        {
            "name": f"{kind.plural}/{subresource}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": _SUBRESOURCE_KINDS.get(subresource, kind.kind),
            "verbs": _SUBRESOURCE_VERBS.get(subresource, ["get", "patch", "update"]),
        }
        for subresource in kind.subresources
    ]
    return [main, *subresources]
