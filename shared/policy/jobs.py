"""The rules of a batch/v1 Job beyond its structure: what the API server refuses (so that it is told at submit), and what the fleet needs.

Source: `ValidateJobSpec` in kubernetes/pkg/apis/batch/validation.
"""

from __future__ import annotations

from typing import Final

from shared.policy.fields import Field
from shared.policy.metadata import LABEL_RULE, check_annotations, check_labels, is_dns_label
from shared.policy.pods import check_pod
from shared.policy.resources import Demand, check_caps, pod_demand, pods_at_once
from shared.policy.security import check_pod_security
from shared.policy.settings import Policy

MAX_INDEXES: Final = 100_000
"""Completions of an Indexed Job: the API server's bound for its parallelism, and five digits in the names of its pods."""

_NOT_NEGATIVE: Final = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completions",
    "maxFailedIndexes",
    "parallelism",
    "ttlSecondsAfterFinished",
)
_SET_BY_THE_JOB_CONTROLLER: Final = ("controller-uid", "job-name")
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"


def check_job(job: Field, policy: Policy) -> None:
    """Check a Job, wherever it goes."""
    _check_name(job["metadata"])
    check_job_spec(job, policy)


def check_job_spec(job: Field, policy: Policy) -> None:
    """Check what a Job, or the template of one, would run."""
    spec, template = job["spec"], job.within("spec", "template")
    if not isinstance(spec.value, dict):
        spec.refuse("is required in Job")
    _check_spec(spec)
    _check_template(template)
    check_pod(template["spec"], policy)
    check_pod_security(template, policy)


def check_queued_job(job: Field) -> None:
    """Refuse what would take a job of the queue out of the fleet's hands, and is fine in a Job that is applied directly."""
    spec = job["spec"]
    if spec["suspend"].value is True:
        spec["suspend"].refuse("must be left out: the fleet suspends a Job until it is committed, and submitting it means to run it")
    if spec["managedBy"].value not in (None, "", _JOB_CONTROLLER):
        spec["managedBy"].refuse(f"must be {_JOB_CONTROLLER} or left out: with another controller the fleet can't see the end")


def job_demand(job: Field, policy: Policy) -> Demand:
    """What a Job holds at once, with a refusal where that is more than the policy allows."""
    pod, spec = job.within("spec", "template", "spec"), job["spec"]
    demand, pods = pod_demand(pod, policy), pods_at_once(job)
    check_caps(pod, spec["parallelism"], demand, pods, policy)
    return demand.times(pods)


def check_pod_labels(labels: Field) -> None:
    """Check labels that a Job's pods will carry."""
    check_labels(labels)
    for key, value in labels.items():
        if key.startswith("batch.kubernetes.io/") or key in _SET_BY_THE_JOB_CONTROLLER:
            value.refuse("must be left out: the Job controller sets this label")


def _check_name(metadata: Field) -> None:
    name = metadata["name"]
    if metadata["generateName"].value is not None:
        metadata["generateName"].refuse("must be left out: give a name, and the fleet makes one of it that nothing else on the cluster has")
    if name.value in (None, ""):
        name.refuse("is required")
    elif not is_dns_label(name.text):
        name.refuse(LABEL_RULE)


def _check_spec(spec: Field) -> None:
    for name in _NOT_NEGATIVE:
        if (spec[name].integer or 0) < 0:
            spec[name].refuse("must not be negative")
    _check_selector(spec)
    _check_completion(spec)
    _check_failure_policy(spec)


def _check_selector(spec: Field) -> None:
    if spec["selector"].given or spec["manualSelector"].value is True:
        (spec["selector"] if spec["selector"].given else spec["manualSelector"]).refuse(
            "must be left out: a selector of one's own can take other Jobs' pods"
        )


def _check_completion(spec: Field) -> None:
    if spec["completionMode"].value not in (None, "NonIndexed", "Indexed"):
        spec["completionMode"].refuse("must be NonIndexed or Indexed")
    if spec["completionMode"].value == "Indexed":
        if not spec["completions"].given:
            spec["completions"].refuse("is required with completionMode Indexed")
        for name in ("completions", "parallelism"):
            if (spec[name].integer or 0) > MAX_INDEXES:
                spec[name].refuse(f"must be at most {MAX_INDEXES} with completionMode Indexed")


def _check_failure_policy(spec: Field) -> None:
    restart = spec.within("template", "spec", "restartPolicy")
    if restart.value not in ("Never", "OnFailure"):
        restart.refuse("must be Never or OnFailure in a Job")
    if restart.value == "OnFailure":
        for name in ("podFailurePolicy", "backoffLimitPerIndex"):
            if spec[name].given:
                restart.refuse(f"must be Never with {name}")
    if spec["podFailurePolicy"].given and spec["podReplacementPolicy"].value not in (None, "Failed"):
        spec["podReplacementPolicy"].refuse("must be Failed with podFailurePolicy")


def _check_template(template: Field) -> None:
    check_pod_labels(template.within("metadata", "labels"))
    check_annotations(template.within("metadata", "annotations"))
    deadline = template.within("spec", "activeDeadlineSeconds")
    if deadline.integer is not None and deadline.integer < 1:
        deadline.refuse("must be at least 1")
