"""A process that has AWS credentials and nothing else reaches an EKS cluster, over TLS, with tokens that STS vouches for."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from shared.clusters.reaching import reach
from shared.errors import FleetError, UnavailableError
from tests.infra.lambdas.eks_stage import eks_stage
from tests.integration.region import REGION, running_region
from workers.api.cluster_access import ClusterAccess

NAME = "gpufleet-us-east-1"
JOBS = "/apis/batch/v1/namespaces/gco-jobs/jobs"


class Skewed:
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
async def region(fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path, eks_clusters=("gpufleet-{region}",)) as running:
        yield running


@pytest.fixture
async def stage(region, aws_endpoint, monkeypatch):
    async with eks_stage(upstream=region.server.url, sts=aws_endpoint, name=NAME, region=REGION) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL_EKS", made.eks)
        yield made


async def test_a_job_is_made_and_listed_by_a_caller_whom_sts_knows(region, stage):
    async with reach(region.settings, REGION) as api:
        await api.request("POST", JOBS, body=_job("over-eks"))
        found = await api.request("GET", JOBS)

    assert [one["metadata"]["name"] for one in found["items"]] == ["over-eks"]
    assert stage.descriptions == 1
    assert len(stage.callers) == 2
    assert all(caller.startswith("arn:aws:iam::") for caller in stage.callers)
    assert stage.refused == []


async def test_a_token_is_used_again_and_made_anew_before_it_ends(region, stage, monkeypatch):
    clock = Skewed()
    stage.now = clock.now
    monkeypatch.setattr("botocore.auth.get_current_datetime", clock.now)
    async with reach(region.settings, REGION, clock=clock) as api:
        await api.request("GET", JOBS)
        clock.ahead = timedelta(minutes=9)
        await api.request("GET", JOBS)
        clock.ahead = timedelta(minutes=11)
        await api.request("GET", JOBS)

    first, second, third = stage.tokens
    assert first == second != third
    assert stage.refused == []


async def test_a_token_is_for_one_cluster_only(region, stage):
    stage.name = "another"
    stage.described["name"] = "another"
    settings = region.settings.model_copy(update={"eks_clusters": ("us-east-1=another",)})
    async with reach(settings, REGION) as api:
        await api.request("GET", JOBS)
        stage.name = NAME
        with pytest.raises(FleetError, match="Unauthorized"):
            await api.request("GET", JOBS)


async def test_the_api_reaches_the_clusters_of_all_regions_that_are_named(region, stage):
    settings = region.settings.model_copy(update={"eks_clusters": (f"us-east-1={NAME}",)})
    access = ClusterAccess(settings)
    try:
        assert access.any
        one, same, streams = await access.api(REGION), await access.api(REGION), await access.api(REGION, streams=True)
        assert one is same is not streams
        assert (await streams.request("GET", JOBS))["items"] == []
    finally:
        await access.close()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"status": "CREATING", "endpoint": None}, "the EKS cluster gpufleet-us-east-1 in us-east-1 is CREATING and has no address to use"),
        ({"status": "DELETING"}, "is DELETING"),
        ({"certificateAuthority": {"data": "%"}}, "certificates that can't be read"),
        ({"certificateAuthority": {"data": ""}}, "no certificates to know it by"),
        ({"certificateAuthority": {"data": base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()}}, "can't be used"),
    ],
    ids=["made", "deleted", "no-base64", "no-certificates", "no-pem"],
)
async def test_a_cluster_that_can_not_be_used_is_told_by_its_name(region, stage, changed, told):
    stage.described |= changed

    with pytest.raises(UnavailableError, match=told):
        async with reach(region.settings, REGION):
            pass


async def test_a_cluster_that_is_not_there_names_the_setting(region, stage):
    settings = region.settings.model_copy(update={"eks_clusters": ("us-east-1=gone",)})

    with pytest.raises(UnavailableError, match=r"there is no EKS cluster gone in us-east-1 \(GPUFLEET_EKS_CLUSTERS\)"):
        async with reach(settings, REGION):
            pass


async def test_an_eks_that_does_not_answer_is_not_waited_for(region, stage, monkeypatch):
    monkeypatch.setattr("shared.clusters.eks.DESCRIBE_SECONDS", 0.3)
    stage.answers.clear()

    with pytest.raises(UnavailableError, match=r"EKS didn't answer within 0\.3 s"):
        async with reach(region.settings, REGION):
            pass


@pytest.mark.parametrize(
    ("clusters", "told"),
    [((), "neither GPUFLEET_KUBECONFIG nor GPUFLEET_EKS_CLUSTERS is set"), (("eu-west-1=gpu",), "GPUFLEET_EKS_CLUSTERS names none")],
    ids=["nothing", "another-region"],
)
async def test_a_region_whose_cluster_nobody_names_is_told(region, monkeypatch, clusters, told):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    settings = region.settings.model_copy(update={"eks_clusters": clusters})

    with pytest.raises(UnavailableError, match=f"this process knows no cluster of us-east-1: {told}"):
        async with reach(settings, REGION):
            pass


async def test_an_api_server_that_another_authority_vouches_for_is_told_nothing(region, stage):
    stage.described["certificateAuthority"] = {"data": base64.b64encode(trustme.CA().cert_pem.bytes()).decode()}

    async with reach(region.settings, REGION) as api:
        with pytest.raises(UnavailableError, match=r"(?i)certificate"):
            await api.request("GET", JOBS)
    assert stage.tokens == []


async def test_without_credentials_there_is_no_token(region, stage, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setattr("shared.aws.get_session", _fresh_session)

    with pytest.raises(UnavailableError, match=r"(?i)credentials"):
        async with reach(region.settings, REGION):
            pass


def _fresh_session():
    from aiobotocore.session import get_session

    return get_session()


def _job(name):
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"cpu": "10m", "memory": "16Mi"}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
