"""The policy file: what it may say, how a wrong one is told, and that its page says the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from shared.errors import InvalidError
from shared.policy import Policy, Security
from shared.policy.loading import PolicyFileError, load_policy, policy_from
from tests.unit.policy_examples import a_job, changed, main_of, problems

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()


def rows(columns):
    """The rows of the page's table that has so many columns, without its head."""
    lines = [re.split(r"\s*\|\s*", line.strip().strip("|").strip()) for line in PAGE.splitlines() if line.startswith("| `")]
    return [[cell.strip("`") for cell in row] for row in lines if len(row) == columns]


def test_the_page_has_every_setting_with_its_default():
    documented = {key: default for key, _, default, _ in rows(4)}

    assert list(documented) == [field.name for field in fields(Policy)]
    given = {key: json.loads(default) for key, default in documented.items() if key != "security"}
    assert policy_from(given) == Policy()
    assert all(policy_from({key: value}) == Policy() for key, value in given.items())


def test_the_page_has_every_switch_with_its_default():
    assert {key: json.loads(default) for key, default, _ in rows(3)} == asdict(Security())


def test_the_example_of_the_page_is_a_policy(tmp_path):
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "policy.json"
    path.write_text(example[1])

    policy = load_policy(path)

    assert policy.max_gpus == 64
    assert policy.max_memory == 8 * 1024**4
    assert policy.security == Security(block_run_as_root=True)


def test_every_type_that_the_page_names_is_the_one_that_is_read():
    wrong = {"array": "x", "quantity": "many", "integer": "1", "boolean": 1, "object": []}
    for key, kind, _, _ in rows(4):
        with pytest.raises(InvalidError):
            policy_from({key: wrong[re.split(r"\W", kind)[0]]})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"max_gpu": 8}', "/max_gpu: 8: must be a setting of the policy; did you mean 'max_gpus'?"),
        ('{"max_gpus": "8"}', '/max_gpus: "8": must be a whole number of at least 0'),
        ('{"yaml_max_depth": 51}', "/yaml_max_depth: 51: must be a whole number from 1 to 50"),
        ('{"allowed_namespaces": ["a", "B", 1]}', '/allowed_namespaces/1: "B": must be a DNS label'),
        ('{"allowed_namespaces": ["a", "B", 1]}', "/allowed_namespaces/2: 1: must be a string"),
        ('{"max_memory": "64GB"}', '/max_memory: "64GB": must be a Kubernetes quantity'),
        ('{"max_cpu": -1}', "/max_cpu: -1: must not be negative"),
        (
            '{"security": {"block_hostpath": true}}',
            "/security/block_hostpath: true: must be a setting of the policy; did you mean 'block_host_",
        ),
        (
            '{"main_kinds": [["v1", "Pod"]]}',
            '/main_kinds/0: must be a pair of apiVersion and kind that admission has rules for: ["batch/v1", "Job"]',
        ),
        ('{"manifest_kinds": [["v1", "Pod"], ["v1", "Secret"]]}', "/manifest_kinds/1: must be a pair of apiVersion and kind"),
        ("{", '/: "{": must be JSON'),
        ("", "/: must hold one object, and holds 0"),
        ('{"max_gpus": 1, "max_gpus": 2}', "key must stand only once"),
    ],
)
def test_a_wrong_file_is_told_with_its_path_and_every_fault(tmp_path, content, said):
    path = tmp_path / "policy.json"
    path.write_text(content)

    with pytest.raises(PolicyFileError) as refused:
        load_policy(path)

    assert str(refused.value).startswith(f"the policy file {path} (GPUFLEET_POLICY_FILE) is wrong: ")
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_told_with_its_path(tmp_path):
    with pytest.raises(PolicyFileError, match=r"none\.json \(GPUFLEET_POLICY_FILE\) .* must be a file that can be read: No such file"):
        load_policy(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("job", "key"),
    [
        (changed("/spec/template/spec/containers/0/image", "evil/x"), "trusted_registries or trusted_dockerhub_orgs"),
        (changed("/spec/template/spec/serviceAccountName", "admin"), "allowed_service_accounts"),
        (a_job(gpus=17), "max_gpus"),
        (a_job(gpus=9, parallelism=2), "max_gpus"),
    ],
)
def test_a_refusal_names_the_setting_that_would_allow_it(job, key):
    [rule] = problems(job).values()

    assert f"{key} in the policy file (GPUFLEET_POLICY_FILE)" in rule
    for name in key.split(" or "):
        assert name in {field.name for field in fields(Policy)}
    assert main_of(job)


@pytest.mark.parametrize("worker", ["workers.api", "workers.ingest"])
def test_a_wrong_policy_file_is_told_before_aws_is_asked_anything(tmp_path: Path, worker: str) -> None:
    """Nobody listens at this endpoint, so that whoever asks it first has another error to tell."""
    path = tmp_path / "policy.json"
    path.write_text('{"allowed_namespace": []}')
    environment = {"GPUFLEET_POLICY_FILE": str(path), "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "us-east-1"}
    environment |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}

    ended = subprocess.run([sys.executable, "-m", worker], env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 2
    assert json.loads(ended.stderr.splitlines()[-1])["error"].startswith(
        f"the policy file {path} (GPUFLEET_POLICY_FILE) is wrong: /allowed_namespace"
    )
