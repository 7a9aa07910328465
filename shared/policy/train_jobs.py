"""The rules of a TrainJob: what it lays over the pods of its runtime must keep to the rules of every pod.

The runtime itself (a TrainingRuntime or ClusterTrainingRuntime) is the operator's, and can't be applied through any door. What it says is
not known here: a TrainJob that asks for no resources counts as none, and one that names no number of nodes as one node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shared.policy.fields import Field
from shared.policy.metadata import SERVICE_RULE, check_marks, check_name, is_service_name
from shared.policy.pods import check_env, check_image, check_partial_template, check_tolerations
from shared.policy.resources import Demand, asks_for, check_caps, check_requests, demand_of
from shared.policy.settings import Policy

_GROUP: Final = "trainer.kubeflow.org"
_RUNTIMES: Final = ("ClusterTrainingRuntime", "TrainingRuntime")
_CONTROLLERS: Final = (f"{_GROUP}/trainjob-controller", "kueue.x-k8s.io/multikueue")


def check_train_job(train: Field, policy: Policy) -> Demand:
    """Check a TrainJob. It holds its nodes times the resources of one, suspended or not."""
    check_name(train["metadata"], is_service_name, SERVICE_RULE)
    spec, trainer = train["spec"], train.within("spec", "trainer")
    _check_frame(spec)
    _check_trainer(trainer, policy)
    for part in ("dataset", "model"):
        check_env(spec["initializer"][part]["env"])
    tolerations: list[Field] = []
    for template in _pod_templates(spec):
        check_partial_template(template, policy)
        tolerations += template["spec"]["tolerations"].elements()
    resources, nodes = trainer["resourcesPerNode"], trainer["numNodes"]
    asked = [taint for taint in policy.accelerator_taints if asks_for([resources], taint)]
    check_tolerations(asked, tolerations, _place_of_tolerations(spec), policy)
    count = 1 if nodes.integer is None else max(nodes.integer, 1)
    return check_caps(resources, nodes, demand_of(resources, policy), count, policy, noun="TrainJob")


def _check_frame(spec: Field) -> None:
    reference = spec["runtimeRef"]
    if reference["apiGroup"].value not in (None, "", _GROUP):
        reference["apiGroup"].refuse(f"must be {_GROUP} or left out")
    if reference["kind"].value not in (None, "", *_RUNTIMES):
        reference["kind"].refuse(f"must be {' or '.join(_RUNTIMES)}")
    if spec["managedBy"].value not in (None, *_CONTROLLERS):
        spec["managedBy"].refuse(f"must be {' or '.join(_CONTROLLERS)}")
    if spec["activeDeadlineSeconds"].integer is not None and spec["activeDeadlineSeconds"].integer < 1:
        spec["activeDeadlineSeconds"].refuse("must be at least 1")
    check_marks(spec)  # its labels and annotations are those of the JobSet and its Jobs


def _check_trainer(trainer: Field, policy: Policy) -> None:
    if trainer["image"].given:
        check_image(trainer["image"], policy)
    check_env(trainer["env"])
    check_requests(trainer["resourcesPerNode"])
    if trainer["resourcesPerNode"]["claims"].value not in (None, []):
        trainer["resourcesPerNode"]["claims"].refuse("must be left out: devices are asked for in limits, where the caps count them")
    if (trainer["numNodes"].integer or 0) < 0:
        trainer["numNodes"].refuse("must not be negative")


def _pod_templates(spec: Field) -> Iterator[Field]:
    """Yield everything that is laid over the pod template of a runtime; what stands around it is checked on the way."""
    yield from spec["podTemplateOverrides"].elements()
    for patch in spec["runtimePatches"].elements():
        job_set = patch["trainingRuntimeSpec"]["template"]
        check_marks(job_set["metadata"])
        for job in job_set["spec"]["replicatedJobs"].elements():
            check_marks(job["template"]["metadata"])
            yield job["template"]["spec"]["template"]


def _place_of_tolerations(spec: Field) -> Field:
    return spec["podTemplateOverrides"] if spec["podTemplateOverrides"].given else spec["runtimePatches"]
