"""An image is judged by what it really names, however it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy import Policy
from shared.policy.images import Reference, parse_reference, trusted
from tests.unit.policy_examples import changed, problems

DIGEST = "sha256:" + "0123456789abcdef" * 4


def is_trusted(image: str) -> bool:
    reference = parse_reference(image)
    policy = Policy()
    return reference is not None and trusted(reference, registries=policy.trusted_registries, dockerhub_orgs=policy.trusted_dockerhub_orgs)


@pytest.mark.parametrize(
    ("image", "registry", "repository"),
    [
        ("nginx", "docker.io", "library/nginx"),
        ("nginx:1.27", "docker.io", "library/nginx"),
        (f"nginx@{DIGEST}", "docker.io", "library/nginx"),
        (f"nginx:1.27@{DIGEST}", "docker.io", "library/nginx"),
        ("library/nginx", "docker.io", "library/nginx"),
        ("docker.io/nginx", "docker.io", "library/nginx"),
        ("index.docker.io/library/nginx", "docker.io", "library/nginx"),
        ("DOCKER.IO/evil/x", "docker.io", "evil/x"),
        ("pytorch/pytorch:2", "docker.io", "pytorch/pytorch"),
        ("localhost/x", "localhost", "x"),
        ("localhost:5000/x", "localhost:5000", "x"),
        ("registry:5000/x/y:tag", "registry:5000", "x/y"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io", "nvidia/pytorch"),
        ("[::1]:5000/x", "[::1]:5000", "x"),
        ("a--b/c__d/e.f", "docker.io", "a--b/c__d/e.f"),
    ],
)
def test_references_are_read_as_a_container_runtime_reads_them(image: str, registry: str, repository: str) -> None:
    assert parse_reference(image) == Reference(registry=registry, repository=repository)


@pytest.mark.parametrize(
    "image",
    [
        "",
        " ",
        "nginx ",
        "Nginx",
        "a//b",
        "/a",
        "a/",
        "nginx:",
        "nginx:a b",
        "nginx@sha256:12",
        "nginx@",
        ":tag",
        "a/b:c:d",
        "x:5000:1/y",
        "https://nvcr.io/x",
        "a/../b",
        "-a",
        "a_/b",
        "nginx\n",
        "0123456789abcdef" * 4,
        "x" * 2000,
        "nvcr.io@evil.com/x",
        "a___b",
        "ä",
    ],
)
def test_anything_else_is_no_reference(image: str) -> None:
    assert parse_reference(image) is None
    assert "must be an image reference" in str(problems(changed("/spec/template/spec/containers/0/image", image)))


@pytest.mark.parametrize(
    "image",
    [
        "nginx",
        "docker.io/nginx",
        "pytorch/pytorch",
        "docker.io/pytorch/pytorch",
        "index.docker.io/vllm/vllm-openai:latest",
        "nvcr.io/nvidia/x",
        "public.ecr.aws/a/b",
        "ghcr.io/huggingface/tgi:1",
        "quay.io/x/y",
        "NVCR.io/nvidia/x",
    ],
)
def test_trusted_sources(image: str) -> None:
    assert is_trusted(image)


@pytest.mark.parametrize(
    "image",
    [
        "evil/x",
        "docker.io/evil/x",
        "index.docker.io/evil/x",
        "registry-1.docker.io/evil/x",
        "docker.io:443/library/nginx",
        "ghcr.io/evil/x",
        "ghcr.io/huggingface-evil/x",
        "nvcr.io.evil.com/x",
        "nvcr.io:443/x",
        "localhost/x",
        "evil.com/nvcr.io/x",
        "pytorch-evil/x",
        "library.evil.com/nginx",
        "1.2.3.4/x",
        "xnvcr.io/x",
    ],
)
def test_untrusted_sources_are_refused_with_those_that_are_trusted(image: str) -> None:
    assert not is_trusted(image)
    found = problems(changed("/spec/template/spec/containers/0/image", image))
    rule = found["/manifest/spec/template/spec/containers/0/image"]
    assert "pytorch" in rule
    assert "nvcr.io" in rule


def test_an_operator_may_trust_one_path_of_a_registry() -> None:
    policy = Policy(trusted_registries=("123456789012.dkr.ecr.us-east-1.amazonaws.com", "docker.io/acme/"))
    place = "/spec/template/spec/containers/0/image"
    assert not problems(changed(place, "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/x:1"), policy=policy)
    assert not problems(changed(place, "acme/x"), policy=policy)
    assert problems(changed(place, "nvcr.io/nvidia/x"), policy=policy)
    assert problems(changed(place, "acmeevil/x"), policy=policy)


def test_images_that_are_mounted_are_judged_too() -> None:
    job = changed("/spec/template/spec/volumes", [{"name": "m", "image": {"reference": "evil/model"}}])
    assert "/manifest/spec/template/spec/volumes/0/image/reference" in problems(job)


@given(st.text(max_size=40))
def test_any_text_is_a_reference_or_none(image: str) -> None:
    found = parse_reference(image)
    assert found is None or (found.registry and found.repository)
