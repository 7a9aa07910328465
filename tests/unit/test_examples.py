"""The examples are what they say: admitted by the policy, rendered as their comments promise, and a producer of twenty lines."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from shared.clusters.rendering import RenderIdentity, render
from shared.policy import Policy, check
from shared.queues.submissions import SubmissionMessage
from workers.cli.bundles import Bundle, load_bundles

EXAMPLES = Path(__file__).parents[2] / "examples"
SUBMITTED = ["batch-inference.yaml", "cuda-vectoradd.yaml", "embeddings.json", "preprocess-cpu.yaml", "training-ddp.yaml"]
SUBMITTED += ["vllm-offline-batch.yaml"]


def load(name: str) -> Bundle:
    (bundle,) = load_bundles((EXAMPLES / name).read_bytes(), source=name)
    return bundle


@pytest.mark.parametrize("name", SUBMITTED)
def test_an_example_passes_the_policy_as_it_stands(name: str) -> None:
    bundle = load(name)

    admitted = check(bundle.manifest, bundle.supporting, namespace="gco-jobs", policy=Policy())

    assert admitted.gpus == {"batch-inference.yaml": 2, "preprocess-cpu.yaml": 0, "training-ddp.yaml": 8, "vllm-offline-batch.yaml": 2}.get(
        name, 1
    )


def test_the_workers_of_the_training_find_each_other_under_the_name_that_the_fleet_gives() -> None:
    bundle = load("training-ddp.yaml")
    identity = RenderIdentity(
        job_id="01a22cf4aa3a724eb6c3ee9fb4ce3c48", execution=2, name="resnet-ddp", namespace="gco-jobs", spec_hash="h"
    )

    rendered = render(bundle.manifest, bundle.supporting, identity=identity)

    pod = rendered.job["spec"]["template"]["spec"]
    env = [(one["name"], one.get("value")) for one in pod["containers"][0]["env"]]
    names = [name for name, _ in env]
    assert dict(env)["GPUFLEET_JOB_NAME"] == rendered.job["metadata"]["name"]
    assert dict(env)["MASTER_ADDR"] == f"$(GPUFLEET_JOB_NAME)-0.{pod['subdomain']}"
    assert names.index("GPUFLEET_JOB_NAME") < names.index("MASTER_ADDR")
    assert rendered.supporting[0]["metadata"]["name"] == pod["subdomain"]


def test_the_producer_is_twenty_lines_and_sends_what_the_queue_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (EXAMPLES / "producer.py").read_text()
    sent: list[dict[str, Any]] = []

    class Sqs:
        def get_queue_url(self, **_: str) -> dict[str, str]:
            return {"QueueUrl": "url"}

        def send_message(self, **message: Any) -> dict[str, str]:
            sent.append(message)
            return {"MessageId": "m1"}

    monkeypatch.setattr("boto3.client", lambda service: Sqs())
    monkeypatch.setattr("sys.argv", ["producer.py", str(EXAMPLES / "training-ddp.yaml")])
    exec(compile(source, "producer.py", "exec"), {})

    lines = [line for line in source.splitlines() if line.strip()]
    assert ast.get_docstring(ast.parse(source))
    assert len(lines) <= 20
    message = SubmissionMessage.model_validate(json.loads(sent[0]["MessageBody"]))
    assert message.supporting[0]["kind"] == "Service"
    assert message.reference is not None
