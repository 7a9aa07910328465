"""Admission as submissions ask for it, and the policy of an installation."""

from __future__ import annotations

import json

import pytest

from shared.errors import ForbiddenError, InvalidError
from shared.jobs.submission import JobRequest
from shared.policy import Policy
from shared.policy.gate import Gate
from shared.policy.loading import load_policy, policy_from


def request(**fields):
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}},
    }
    return JobRequest(manifest=manifest | fields.pop("change", {}), region="any", namespace=fields.pop("namespace", "gco-jobs"), **fields)


def test_a_good_request_is_admitted():
    assert Gate(Policy()).admit(request()).name == "train"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (request(namespace="other"), ForbiddenError),
        (request(change={"kind": "Pod"}), InvalidError),
        (request(labels={"a b": ""}), InvalidError),
    ],
)
async def test_a_prepared_answer_is_the_same(wrong, error):
    gate = Gate(Policy())
    with pytest.raises(error) as at_once:
        gate.admit(wrong)
    await gate.prepare(wrong)
    with pytest.raises(error) as prepared:
        gate.admit(wrong)

    assert str(prepared.value) == str(at_once.value)


async def test_a_prepared_answer_is_used_once_and_can_be_forgotten(monkeypatch):
    worked_out = []
    gate = Gate(Policy())
    monkeypatch.setattr("shared.policy.gate.check", lambda *_, **__: worked_out.append(1) or check_result())
    wanted = request()

    await gate.prepare(wanted)
    gate.admit(wanted)
    gate.admit(wanted)
    await gate.prepare(wanted)
    gate.forget(wanted)
    gate.forget(wanted)
    gate.admit(wanted)

    assert len(worked_out) == 4


def check_result():
    from types import SimpleNamespace

    return SimpleNamespace(name="train", gpus=0)


def test_without_a_file_the_defaults_hold():
    assert load_policy(None) == Policy()


def test_a_file_changes_what_it_names(tmp_path):
    path = tmp_path / "policy.json"
    content = {"allowed_namespaces": ["a", "b"], "max_memory": "1Ti", "max_gpus": 4, "security": {"block_run_as_root": True}}
    path.write_text(json.dumps(content))

    policy = load_policy(path)

    assert policy.allowed_namespaces == ("a", "b")
    assert policy.max_memory == 1024**4
    assert policy.max_gpus == 4
    assert policy.security.block_run_as_root
    assert policy.max_cpu == Policy().max_cpu


@pytest.mark.parametrize(
    ("document", "pointers"),
    [
        ({"max_gpu": 1}, ["/max_gpu"]),
        ({"max_gpus": "1", "max_cpu": "many"}, ["/max_gpus", "/max_cpu"]),
        ({"allowed_namespaces": "a"}, ["/allowed_namespaces"]),
        ({"security": {"block_everything": True}}, ["/security/block_everything"]),
        ({"security": {"block_privileged": 1}}, ["/security/block_privileged"]),
        ({"main_kinds": [["v1"]]}, ["/main_kinds/0"]),
        ({"max_gpus": True}, ["/max_gpus"]),
        ({"main_kinds": [["v1", "Pod"], "Job"]}, ["/main_kinds/0", "/main_kinds/1"]),
    ],
)
def test_a_wrong_setting_is_named(document, pointers):
    with pytest.raises(InvalidError) as refused:
        policy_from(document)

    assert [problem.pointer for problem in refused.value.problems] == pointers
