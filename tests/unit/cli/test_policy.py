"""`gpufleet policy`: the verdict of admission without an API, and the policy that an API enforces."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import FakeApi
from tests.unit.policy_examples import a_config_map, a_job, a_service, a_workload, changed

Run = Callable[..., int]
Write = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_policy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUFLEET_POLICY_FILE", raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(*documents: Any, name: str = "jobs.yaml") -> str:
        path = tmp_path / name
        path.write_text("\n---\n".join(one if isinstance(one, str) else json.dumps(one) for one in documents))
        return str(path)

    return to_file


def test_what_is_admitted_is_told_with_what_it_would_hold(gpufleet: Run, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(a_workload("Deployment", gpus=2, replicas=3), a_service())

    assert gpufleet("policy", "check", file) == 0

    assert capsys.readouterr().out.splitlines() == [
        f"{file}: Deployment/serve: admitted  6 GPUs, 24 cores, 192Gi of memory",
        f"{file}: Service/peers: admitted",
    ]


def test_everything_that_is_wrong_is_told_with_its_document(gpufleet: Run, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    bad = changed("/spec/template/spec/hostNetwork", True)
    bad["spec"]["template"]["spec"]["containers"][0]["image"] = "evil/x"
    file = write(a_config_map(a="b"), bad, a_service(type="NodePort"))

    assert gpufleet("policy", "check", file) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"{file}: ConfigMap/settings: admitted", f"{file}: Job/train: refused"]
    assert lines[2].startswith("  /1/spec/template/spec/containers/0/image: evil/x: must come from a trusted source")
    assert lines[3] == "  /1/spec/template/spec/hostNetwork: true: must not be true: hostNetwork is not permitted"
    assert lines[4] == f"{file}: Service/peers: refused"
    assert lines[5].startswith("  /2/spec/type: NodePort: must be ClusterIP")


def test_for_programs_it_is_one_document(gpufleet: Run, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(a_job(gpus=2), a_job(parallelism=-1))

    assert gpufleet("policy", "check", file, "--json") == 1

    document = json.loads(capsys.readouterr().out)
    good, bad = document["manifests"]
    assert document["admitted"] is False
    assert good == {
        "source": file,
        "name": "Job/train",
        "admitted": True,
        "kind": "Job",
        "namespace": "gco-jobs",
        "gpus": 2,
        "cpu": "8",
        "memory": "64Gi",
        "problems": [],
    }
    assert bad["admitted"] is False
    assert bad["problems"] == [{"pointer": "/1/spec/parallelism", "value": -1, "rule": "must not be negative"}]


def test_empty_documents_crlf_a_bom_and_lists_are_read(gpufleet: Run, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    twins = {"apiVersion": "v1", "kind": "List", "items": [a_job(), changed("/metadata/name", "other", job=a_job(parallelism=-1))]}
    file = write("\ufeff---\r\n---\r\n" + json.dumps(twins), "")

    assert gpufleet("policy", "check", file) == 1

    out = capsys.readouterr().out
    assert "Job/train: admitted" in out
    assert "  /1/items/1/spec/parallelism: -1: must not be negative" in out


def test_the_same_object_twice_in_a_file_is_told(gpufleet: Run, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpufleet("policy", "check", write(a_job(), a_job())) == 1
    assert "/1/metadata/name: train: must stand only once in a request: there is a Job of this name at /0" in capsys.readouterr().out


def test_the_rules_of_the_queue_are_asked_for(gpufleet: Run, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(a_service(), a_job(suspend=True))

    assert gpufleet("policy", "check", file) == 0
    assert gpufleet("policy", "check", file, "--queue") == 1
    assert "  /manifest/spec/suspend: true: must be left out" in capsys.readouterr().out
    assert gpufleet("policy", "check", write(a_workload("Deployment")), "--queue") == 2


def test_a_namespace_is_judged_by_the_policy(gpufleet: Run, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"allowed_namespaces": ["team-vision"], "max_gpus": 1}')
    file = write(a_job(gpus=1))

    assert gpufleet("policy", "check", file, "--policy", str(policy)) == 1
    assert "/namespace: gco-jobs: must be an allowed namespace: team-vision" in capsys.readouterr().out
    assert gpufleet("policy", "check", file, "--policy", str(policy), "--namespace", "team-vision") == 0
    assert gpufleet("policy", "check", file, "--policy", str(policy), "--namespace", "team-vision", "--queue") == 0
    assert gpufleet("policy", "check", write(a_job(gpus=2)), "--policy", str(policy), "--namespace", "team-vision") == 1


def test_the_policy_of_the_environment_holds_without_another(
    gpufleet: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"max_gpus": 1}')
    monkeypatch.setenv("GPUFLEET_POLICY_FILE", str(policy))

    assert gpufleet("policy", "check", write(a_job(gpus=2))) == 1

    captured = capsys.readouterr()
    assert "at most 1 GPUs" in captured.out
    assert captured.err.strip() == f"by the policy in {policy}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [", "/0/kind"),
        ("a: &x 1", "anchor"),
        ("", "must hold at least one manifest"),
        ("just text", "must be an object"),
        ("kind: Job\nkind: Job", "only once"),
    ],
)
def test_what_is_no_manifest_is_bad_input(gpufleet: Run, write: Write, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    assert gpufleet("policy", "check", write(text)) == 2
    assert said in capsys.readouterr().err


def test_a_file_or_a_policy_that_is_not_there_is_bad_input(
    gpufleet: Run, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpufleet("policy", "check", str(tmp_path / "none.yaml")) == 2
    assert "No such file" in capsys.readouterr().err
    assert gpufleet("policy", "check", write(a_job()), "--policy", str(tmp_path / "none.json")) == 2
    assert "must be a file that can be read" in capsys.readouterr().err
    wrong = tmp_path / "policy.json"
    wrong.write_text('{"max_gpu": 1}')
    assert gpufleet("policy", "check", write(a_job()), "--policy", str(wrong)) == 2
    assert "did you mean 'max_gpus'" in capsys.readouterr().err


def test_standard_input_can_be_checked(gpufleet: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(a_job()).encode())))

    assert gpufleet("policy", "check", "-") == 0
    assert capsys.readouterr().out.startswith("standard input: Job/train: admitted")


ANSWER = {
    "cluster_id": "gpufleet-us-east-1",
    "policy": {
        "manifest_caps": {"max_gpu_count": 16, "configured": {"max_gpu_per_manifest": 16}},
        "allowed_kinds": ["Job", "Pod"],
        "allowed_api_versions": {"Job": ["batch/v1"]},
        "manifest_security_policy": {"block_privileged": True},
    },
    "cluster_enforcement": {
        "gco-jobs": {"status": "ok", "resource_quotas": {"q": {"pods": "50"}}, "limit_ranges": {"r": [{"type": "Container"}]}},
        "team-b": {"status": "unavailable", "reason": "the cluster does not answer"},
    },
}


def test_the_policy_of_an_api_is_shown(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/api/v1/policy", ANSWER)

    assert gpufleet("policy", "show") == 0

    words = " ".join(capsys.readouterr().out.split())
    for said in (
        "max_gpu_per_manifest 16",
        "allowed_kinds Job, Pod",
        "block_privileged yes",
        "quota q pods=50",
        "limits r type=Container",
        "cluster unavailable: the cluster does not answer",
    ):
        assert said in words
    assert gpufleet("policy", "show", "--json") == 0
    assert json.loads(capsys.readouterr().out) == ANSWER
