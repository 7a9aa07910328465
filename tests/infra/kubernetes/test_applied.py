"""The manifests applied to a cluster through the real client, and the accounts that workers outside of a cluster get from them."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from shared.clusters.api import APPLY
from shared.clusters.client import connect
from shared.clusters.errors import MissingError, RejectedError
from shared.clusters.kinds import JOB, NODE, POD, Kind
from tests.infra.manifests import BASE, manifests
from tests.integration.region import job
from workers.local import accounts
from workers.local.cluster.access import Access, rules_of
from workers.local.cluster.cluster import SimulatedCluster
from workers.local.cluster.kinds import BUILT_IN
from workers.local.cluster.kubeconfig import write_kubeconfig
from workers.local.cluster.node_shapes import parse_shapes
from workers.local.cluster.server import serve

REGIONS = ("us-east-1", "eu-west-1")
ADMINISTRATOR = "system:serviceaccount:kube-system:administrator"


def clusters(regions=REGIONS):
    shapes = parse_shapes("1xm5.4xlarge")
    return [SimulatedCluster(name=region, region=region, nodes=shapes, clock=time.time, seed=0) for region in regions]


def path_of(one):
    (found,) = [kind for kind in BUILT_IN if (kind.api_version, kind.kind) == (one["apiVersion"], one["kind"])]
    kind = Kind(api_version=found.api_version, kind=found.kind, plural=found.plural, namespaced=found.namespaced)
    return kind.path(one["metadata"].get("namespace"), one["metadata"]["name"])


async def test_all_of_them_are_applied_in_the_order_of_the_kustomization_and_again_without_a_change(tmp_path):
    found = [one for one in yaml.safe_load_all(manifests()) if one]
    async with serve(clusters(["us-east-1"])) as [server]:
        write_kubeconfig(tmp_path / "admin.yaml", {"us-east-1": server.url})
        async with connect(kubeconfig=tmp_path / "admin.yaml", context="us-east-1") as api:
            query = {"fieldManager": "test", "fieldValidation": "Strict"}
            first, second = [
                [await api.ask("PATCH", path_of(one), query=query, body=one, content_type=APPLY) for one in found] for _ in range(2)
            ]

    assert {reply.status for reply in first} == {201}
    assert {reply.status for reply in second} == {200}
    assert [as_applied(reply.document) for reply in second] == [as_applied(reply.document) for reply in first]


def as_applied(document):
    """An object without what controllers write on it meanwhile."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    return {key: value for key, value in document.items() if key != "status"} | {"metadata": metadata}


@asynccontextmanager
async def held_to_rights(tmp_path):
    """Two clusters that hold callers to the base's rights, and who may do everything that the accounts need."""
    writing = {"apiGroups": ["", "rbac.authorization.k8s.io"], "resources": [kind.plural for kind in accounts.KINDS.values()]}
    rules = [
        *accounts.documents(BASE),
        {
            "kind": "ClusterRole",
            "metadata": {"name": "administrator"},
            "rules": [
                {**writing, "verbs": ["create", "patch"]},
                {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
            ],
        },
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "administrator"},
            "roleRef": {"kind": "ClusterRole", "name": "administrator"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": "administrator"}],
        },
    ]
    async with serve(clusters(), access=Access(rules_of(rules))) as servers:
        admin, into = tmp_path / "admin", tmp_path / "into"
        into.mkdir()
        write_kubeconfig(admin / "clusters.yaml", {server.cluster.region: server.url for server in servers}, token=ADMINISTRATOR)
        yield admin, into


async def test_each_worker_gets_a_kubeconfig_of_all_regions_with_its_own_rights(tmp_path):
    async with held_to_rights(tmp_path) as (admin, into):
        written = await accounts.run(BASE, admin, None, into)
        assert [path.name for path in written] == ["api.yaml", "dispatcher.yaml", "metrics.yaml", "observer.yaml"]
        assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
        for region in REGIONS:
            async with connect(kubeconfig=into / "dispatcher.yaml", context=region) as api:
                made = await api.request("POST", JOB.path("gco-jobs"), body=job("one"))
                assert made["metadata"]["name"] == "one"
                for path in (NODE.path(), JOB.path("gco-jobs"), POD.path()):
                    with pytest.raises(RejectedError, match="cannot list"):
                        await api.request("GET", path)
            async with connect(kubeconfig=into / "observer.yaml", context=region) as api:
                listed = await api.request("GET", JOB.path())
                assert [one["metadata"]["name"] for one in listed["items"]] == ["one"]
                with pytest.raises(RejectedError, match="cannot create"):
                    await api.request("POST", JOB.path("gco-jobs"), body=job("two"))
            async with connect(kubeconfig=into / "metrics.yaml", context=region) as api:
                assert len((await api.request("GET", NODE.path()))["items"]) == 1
            async with connect(kubeconfig=into / "api.yaml", context=region) as api:
                assert (await api.request("DELETE", JOB.path("gco-jobs", "one")))["kind"] in ("Job", "Status")


async def test_a_second_run_renews_the_tokens_and_changes_nothing_else(tmp_path):
    async with held_to_rights(tmp_path) as (admin, into):
        await accounts.run(BASE, admin, None, into)
        before = {path.name: path.read_text() for path in into.iterdir()}
        await accounts.run(BASE, admin, None, into)
        assert {path.name: path.read_text() for path in into.iterdir()} == before


async def test_without_a_kubeconfig_of_an_administrator_it_says_so(tmp_path):
    with pytest.raises(accounts.NoClustersError, match="no kubeconfig of an administrator"):
        await accounts.run(BASE, tmp_path, None, tmp_path)


def test_a_server_of_somebody_elses_loopback_interface_is_where_it_is_said_to_be(tmp_path):
    """k3s writes such a file: a context `default`, a server on 127.0.0.1, a certificate of its own."""
    cluster = {"certificate-authority-data": "Q0E=", "server": "https://127.0.0.1:6443"}
    content = {
        "clusters": [{"name": "default", "cluster": cluster}],
        "users": [{"name": "default", "user": {"client-certificate-data": "QQ==", "client-key-data": "QQ=="}}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    }
    (tmp_path / "eu-west-1.yaml").write_text(yaml.safe_dump(content))

    [(region, found)] = accounts.administrators(tmp_path, "https://k3s-{region}:6443")

    assert region == "eu-west-1"
    assert found["clusters"] == [{"name": "eu-west-1", "cluster": {**cluster, "server": "https://k3s-eu-west-1:6443"}}]
    assert found["users"] == [{"name": "eu-west-1", "user": content["users"][0]["user"]}]
    assert found["contexts"] == [{"name": "eu-west-1", "context": {"cluster": "eu-west-1", "user": "eu-west-1"}}]


def test_a_server_that_others_reach_is_left_as_it_is(tmp_path):
    """As simulated clusters write it that have a name in their network."""
    urls = {"us-east-1": "http://clusters:16443", "eu-west-1": "http://clusters:16444"}
    write_kubeconfig(tmp_path / "clusters.yaml", urls)

    found = dict(accounts.administrators(tmp_path, "https://k3s-{region}:6443"))

    assert {region: one["clusters"][0]["cluster"]["server"] for region, one in found.items()} == urls


async def test_an_account_that_is_not_there_gets_no_token(tmp_path):
    async with serve(clusters(["us-east-1"])) as [server]:
        write_kubeconfig(tmp_path / "admin.yaml", {"us-east-1": server.url})
        async with connect(kubeconfig=tmp_path / "admin.yaml", context="us-east-1") as api:
            with pytest.raises(MissingError):
                await api.request("POST", "/api/v1/namespaces/default/serviceaccounts/nobody/token", body={})


def test_what_is_applied_needs_only_what_stands_before_it():
    kinds = [one["kind"] for one in accounts.documents(Path(BASE))]
    assert kinds == sorted(kinds, key=list(accounts.KINDS).index)
    assert {one["metadata"]["name"] for one in accounts.documents(BASE) if one["kind"] == "ServiceAccount"} == {
        "api",
        "dispatcher",
        "metrics",
        "observer",
    }
