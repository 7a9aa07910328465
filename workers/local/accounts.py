"""`python -m workers.local.accounts`: accounts for workers that run outside of their clusters, each with its own rights and no more.

For where neither EKS nor a pod says who a worker is, such as k3s in containers. It applies the roles and bindings of
`infra/kubernetes/base` with an administrator's kubeconfigs, asks for a token of each worker's service account, and writes a kubeconfig for
each worker with one context for each region, named as the region. Where a binding is of a group, which IAM would tell, an account of that
name stands for it. Running it again renews the tokens, which last a year.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import stamina
import yaml

from shared.clusters.api import APPLY, KubernetesApi
from shared.clusters.client import connect
from shared.clusters.errors import MissingError
from shared.clusters.kinds import Kind
from shared.errors import FleetError, UnavailableError
from workers.secret_files import write_secret

NAMESPACE: Final = "gpufleet"
GROUP: Final = "gpufleet:"
TOKEN_SECONDS: Final = 365 * 86_400
_RBAC: Final = "rbac.authorization.k8s.io/v1"
KINDS: Final = {
    kind.kind: kind
    for kind in (
        Kind(api_version="v1", kind="Namespace", plural="namespaces", namespaced=False),
        Kind(api_version="v1", kind="ServiceAccount", plural="serviceaccounts"),
        Kind(api_version=_RBAC, kind="ClusterRole", plural="clusterroles", namespaced=False),
        Kind(api_version=_RBAC, kind="ClusterRoleBinding", plural="clusterrolebindings", namespaced=False),
        Kind(api_version=_RBAC, kind="RoleBinding", plural="rolebindings"),
    )
}
"""What is applied of the manifests, in the order in which each needs those before it."""

Document = dict[str, Any]


def documents(folder: Path) -> list[Document]:
    """Who may do what, of a folder of manifests, in the order in which it is applied; groups have become accounts."""
    read = [one for path in sorted(folder.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
    found = [_with_accounts(one) for one in read if one["kind"] in KINDS]
    standing = {one["metadata"]["name"] for one in found if one["kind"] == "ServiceAccount"}
    names = {subject["name"] for one in found for subject in one.get("subjects", ())}
    found += [_account(name) for name in sorted(names - standing)]
    return sorted(found, key=lambda one: list(KINDS).index(one["kind"]))


def _with_accounts(document: Document) -> Document:
    document = deepcopy(document)
    for subject in document.get("subjects", ()):
        if subject["kind"] == "Group" and subject["name"].startswith(GROUP):
            name = subject["name"].removeprefix(GROUP)
            subject.clear()
            subject.update(kind="ServiceAccount", name=name, namespace=NAMESPACE)
    return document


def _account(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}


async def provide(api: KubernetesApi, manifests: Sequence[Document]) -> dict[str, str]:
    """Apply what `documents` gives and get a token for each account, by its name. Raises UnavailableError, ApiError."""
    for one in manifests:
        metadata = one["metadata"]
        path = KINDS[one["kind"]].path(metadata.get("namespace"), metadata["name"])
        await api.ask("PATCH", path, query={"fieldManager": "gpufleet-accounts", "force": "true"}, body=one, content_type=APPLY)
    tokens: dict[str, str] = {}
    for name in sorted(one["metadata"]["name"] for one in manifests if one["kind"] == "ServiceAccount"):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": TOKEN_SECONDS}}
        answer = await api.request("POST", f"{KINDS['ServiceAccount'].path(NAMESPACE, name)}/token", body=body)
        tokens[name] = answer["status"]["token"]
    return tokens


def administrators(folder: Path, server: str | None) -> Iterator[tuple[str, Document]]:
    """Region and kubeconfig of each context of each file in a folder; a context `default`, as of k3s, is of the region that names its file.

    A server on the loopback interface is somebody else's loopback interface: `server` says where it is, with `{region}` in it.
    """
    for path in sorted(folder.glob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        clusters = {one["name"]: one["cluster"] for one in content["clusters"]}
        users = {one["name"]: one["user"] for one in content["users"]}
        for one in content["contexts"]:
            region = path.stem if one["name"] == "default" else one["name"]
            cluster = dict(clusters[one["context"]["cluster"]])
            if server is not None and _is_loopback(cluster["server"]):
                cluster["server"] = server.replace("{region}", region)
            yield region, kubeconfig({region: cluster}, {region: users[one["context"]["user"]]})


def _is_loopback(url: str) -> bool:
    try:
        return ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback
    except ValueError:
        return False


def kubeconfig(clusters: dict[str, Document], users: dict[str, Document]) -> Document:
    """A kubeconfig with one context for each region, by which clusters and users are told apart too."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(clusters), ""),
        "clusters": [{"name": region, "cluster": cluster} for region, cluster in clusters.items()],
        "users": [{"name": region, "user": users[region]} for region in clusters],
        "contexts": [{"name": region, "context": {"cluster": region, "user": region}} for region in clusters],
    }


async def run(manifests: Path, admin: Path, server: str | None, into: Path, *, seconds: float = 60.0) -> list[Path]:
    """Write the kubeconfigs, and say where. A cluster that doesn't answer yet is asked again for so many seconds.

    Raises NoClustersError, UnavailableError, ApiError, OSError.
    """
    applied = documents(manifests)
    clusters: dict[str, Document] = {}
    tokens: dict[str, dict[str, str]] = {}
    with TemporaryDirectory() as scratch:
        for region, content in administrators(admin, server):
            path = Path(scratch, f"{region}.yaml")
            write_secret(path, yaml.safe_dump(content))
            async for attempt in stamina.retry_context(on=(UnavailableError, MissingError), attempts=None, timeout=seconds):
                with attempt:
                    async with connect(kubeconfig=path, context=region) as api:
                        tokens[region] = await provide(api, applied)
            clusters[region] = content["clusters"][0]["cluster"]
    if not clusters:
        raise NoClustersError(admin)
    written = []
    for name in sorted({name for of_region in tokens.values() for name in of_region}):
        users = {region: {"token": of_region[name]} for region, of_region in tokens.items()}
        path = into / f"{name}.yaml"
        write_secret(path, yaml.safe_dump(kubeconfig(clusters, users), sort_keys=False))
        written.append(path)
    return written


class NoClustersError(FleetError):
    """There is no kubeconfig of an administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"no kubeconfig of an administrator in {folder}: it must hold a .yaml file for each cluster, or one for several")


def main(argv: Sequence[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m workers.local.accounts", description=__doc__)
    parser.add_argument("--manifests", type=Path, required=True, help="the folder with the roles and bindings, infra/kubernetes/base")
    parser.add_argument("--admin", type=Path, required=True, help="the folder with the administrators' kubeconfigs, *.yaml")
    parser.add_argument("--server", help="where a server is whose kubeconfig says 127.0.0.1, with {region} in it")
    parser.add_argument("--into", type=Path, required=True, help="the folder for <worker>.yaml")
    chosen = parser.parse_args(argv)
    try:
        written = asyncio.run(run(chosen.manifests, chosen.admin, chosen.server, chosen.into))
    except (FleetError, OSError) as error:
        sys.exit(str(error))
    sys.stdout.writelines(f"{path}\n" for path in written)


if __name__ == "__main__":
    main()
