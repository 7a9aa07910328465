"""The policy as it is enforced: read from the validator itself, and from the cluster where there is one that answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from shared.clusters.enforcement import read_enforcement
from shared.errors import UnavailableError
from shared.identity.callers import Caller, Right
from shared.policy import Policy, Security
from shared.policy.gate import Gate
from tests.integration.api.conftest import serving
from tests.integration.region import REGION

PATH = "/api/v1/policy"
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gco-jobs-quota"},
    "spec": {"hard": {"requests.cpu": "400", "requests.nvidia.com/gpu": "32", "pods": "50"}},
}
LIMITS = [{"type": "Container", "max": {"cpu": "192", "memory": "2048Gi"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}]
RANGE = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "gco-jobs-limits"}, "spec": {"limits": LIMITS}}


@pytest.fixture
async def core(cluster_core):
    return cluster_core


def under(core, **settings):
    """The same core with another policy."""
    policy = Policy(**settings)
    return replace(core, policy=policy, gate=Gate(policy))


async def asked(core):
    async with serving(core) as client:
        answer = await client.get(PATH)
        assert answer.status_code == 200, answer.text
        return answer.json()


async def make(region, namespace, *objects):
    for one in objects:
        plural = {"ResourceQuota": "resourcequotas", "LimitRange": "limitranges"}[one["kind"]]
        await region.api.request("POST", f"/api/v1/namespaces/{namespace}/{plural}", body=one)


async def test_the_policy_of_the_validator_is_told_with_every_dimension(core):
    policy = Policy(max_gpus=8, security=Security(block_run_as_root=True), trusted_registries=("nvcr.io", "docker.io"))
    found = await asked(replace(core, policy=policy, gate=Gate(policy)))

    assert (found["service"], found["region"], found["cluster_id"], found["source"]) == (
        "gpufleet",
        REGION,
        f"gpufleet-{REGION}",
        "deployed-cluster-runtime",
    )
    told = found["policy"]
    assert told["manifest_caps"] == {
        "max_cpu_millicores": 384_000,
        "max_memory_bytes": 4096 * 1024**3,
        "max_gpu_count": 8,
        "configured": {"max_cpu_per_manifest": "384", "max_memory_per_manifest": "4Ti", "max_gpu_per_manifest": 8},
    }
    assert told["validation_enabled"] is True
    assert told["allowed_namespaces"] == ["gco-jobs"]
    assert told["allowed_kinds"] == [
        "ConfigMap",
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "Pod",
        "Service",
        "StatefulSet",
        "TrainJob",
    ]
    assert told["allowed_api_versions"]["TrainJob"] == ["trainer.kubeflow.org/v1alpha1"]
    assert set(told["allowed_api_versions"]) == set(told["allowed_kinds"])
    assert told["trusted_registries"] == ["docker.io", "nvcr.io"]
    assert told["yaml_max_depth"] == 50
    assert told["require_accelerator_toleration"] is True
    assert len(told["manifest_security_policy"]) == 8
    assert told["manifest_security_policy"]["block_run_as_root"] is True


async def test_quotas_and_limit_ranges_of_the_cluster_are_told(core, region):
    await make(region, "gco-jobs", QUOTA, RANGE)

    found = await asked(core)

    assert found["cluster_enforcement"] == {
        "gco-jobs": {
            "status": "ok",
            "resource_quotas": {"gco-jobs-quota": QUOTA["spec"]["hard"]},
            "resource_quota_usage": {"gco-jobs-quota": {}},
            "limit_ranges": {"gco-jobs-limits": LIMITS},
        }
    }


async def test_without_a_cluster_its_part_is_unavailable_with_the_reason(core):
    found = await asked(replace(core, clusters=None))

    told = found["cluster_enforcement"]["gco-jobs"]
    assert told["status"] == "unavailable"
    assert "reaches no cluster" in told["reason"]
    assert found["policy"]["allowed_kinds"]


async def test_a_namespace_that_may_not_be_read_hides_no_other(core, region):
    await make(region, "gco-jobs", QUOTA)
    region.fault(path=r"/namespaces/team-b/resourcequotas", status=403)

    found = (await asked(under(core, allowed_namespaces=("team-b", "gco-jobs"))))["cluster_enforcement"]

    assert found["gco-jobs"]["status"] == "ok"
    assert found["team-b"]["status"] == "unavailable"
    assert "resourcequotas" in found["team-b"]["reason"]
    assert "resource_quotas" not in found["team-b"]


async def test_a_namespace_that_the_cluster_does_not_have_is_unavailable(core, region):
    found = (await asked(under(core, allowed_namespaces=("gco-jobs", "team-b"))))["cluster_enforcement"]

    assert found["team-b"] == {"status": "unavailable", "reason": "the cluster has no namespace 'team-b'"}
    assert found["gco-jobs"] == {"status": "ok", "resource_quotas": {}, "resource_quota_usage": {}, "limit_ranges": {}}


async def test_a_namespace_that_something_is_enforced_in_is_not_asked_for(core, region):
    await make(region, "gco-jobs", QUOTA)
    region.fault(path=r"/namespaces/gco-jobs$", status=403)

    assert (await asked(core))["cluster_enforcement"]["gco-jobs"]["status"] == "ok"


async def test_a_cluster_that_is_away_says_nothing_of_how_it_is_reached(core, region):
    await region.server.stop()

    told = (await asked(core))["cluster_enforcement"]["gco-jobs"]

    assert told == {"status": "unavailable", "reason": "the cluster does not answer"}


class Silent:
    """An API server that never answers."""

    async def request(self, *_, **__):
        await asyncio.Event().wait()


async def test_a_cluster_that_never_answers_is_waited_for_once_and_not_for_each_namespace():
    names = [f"team-{number}" for number in range(40)]
    async with asyncio.timeout(5):
        found = await read_enforcement(Silent(), names, seconds=0.05)

    assert {one.reason for one in found.values()} == {"the cluster did not answer within 0.05 s"}
    assert list(found) == names


async def test_a_cluster_that_can_not_be_connected_to_is_no_error_of_ours(core):
    class Away:
        async def api(self, region):
            raise UnavailableError(f"no way to {region}")

    told = (await asked(replace(core, clusters=Away())))["cluster_enforcement"]["gco-jobs"]

    assert told == {"status": "unavailable", "reason": "the cluster does not answer"}


async def test_only_the_callers_namespaces_are_told(core, monkeypatch):
    both = under(core, allowed_namespaces=("gco-jobs", "team-b"))
    caller = Caller(name="key:b", rights=frozenset({Right.READ}), namespaces=frozenset({"team-b", "other"}))
    monkeypatch.setattr("workers.api.identity.LOCAL", caller)

    found = await asked(both)

    assert found["policy"]["allowed_namespaces"] == ["team-b"]
    assert list(found["cluster_enforcement"]) == ["team-b"]
