"""Which EKS cluster is a region's."""

import pytest
from pydantic import ValidationError

from shared.settings import Settings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", (None, None)),
        ("us-east-1=gpu-us,eu-west-1=gpu-eu", ("gpu-us", "gpu-eu")),
        ("gpufleet-{region}", ("gpufleet-us-east-1", "gpufleet-eu-west-1")),
        ("us-east-1=gpu-us, {region}-gpu", ("gpu-us", "eu-west-1-gpu")),
        ("us-east-1=gpu-us", ("gpu-us", None)),
    ],
    ids=["none", "named", "pattern", "both", "one"],
)
def test_a_region_has_the_cluster_that_is_named_for_it(monkeypatch, text, found):
    monkeypatch.setenv("GPUFLEET_EKS_CLUSTERS", text)
    settings = Settings()

    assert (settings.eks_cluster("us-east-1"), settings.eks_cluster("eu-west-1")) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpufleet", "'gpufleet' must be <region>=<name of a cluster>"),
        ("us-east-1=", "must be <region>"),
        ("nowhere=gpu", "must be <region>"),
        ("us-east-1=a,us-east-1=b", "each region once"),
        ("a-{region},b-{region}", "one name with {region} at most"),
    ],
    ids=["no-region", "no-name", "no-such-region", "twice", "two-patterns"],
)
def test_what_names_no_cluster_is_refused(monkeypatch, text, told):
    monkeypatch.setenv("GPUFLEET_EKS_CLUSTERS", text)

    with pytest.raises(ValidationError) as refused:
        Settings()
    assert told in str(refused.value)
