"""The rules of Jobs and CronJobs beyond their structure: what the API server refuses, told at submit, and what the fleet needs.

Source: `ValidateJobSpec` and `validateCronJobSpec` in kubernetes/pkg/apis/batch/validation.
"""

from __future__ import annotations

from typing import Final

from shared.clusters.label_grammar import is_dns_subdomain
from shared.policy.fields import Field
from shared.policy.metadata import LABEL_RULE, check_marks, check_name, is_dns_label
from shared.policy.pods import check_pod_template
from shared.policy.resources import Demand, check_caps, pod_demand, pods_at_once
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
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_MACROS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@every")
_LONGEST_CRON_JOB_NAME: Final = 52
"""The controller appends eleven characters for each Job, whose name is a label value of its pods."""
_CRON_JOB_NAME_RULE: Final = (
    f"must be a DNS subdomain of at most {_LONGEST_CRON_JOB_NAME} characters: parts of a-z, 0-9 and '-' between dots (RFC 1123)"
)


def check_job(job: Field, policy: Policy) -> Demand:
    """Check a Job, wherever it goes."""
    check_name(job["metadata"], is_dns_label, LABEL_RULE)
    return _check_job_of(job, policy)


def check_queued_job(job: Field) -> None:
    """Refuse what would take a job of the queue out of the fleet's hands, and is fine in a Job that is applied directly."""
    spec = job["spec"]
    if spec["suspend"].value is True:
        spec["suspend"].refuse("must be left out: the fleet suspends a Job until it is committed, and submitting it means to run it")
    if spec["managedBy"].value not in (None, "", _JOB_CONTROLLER):
        spec["managedBy"].refuse(f"must be {_JOB_CONTROLLER} or left out: with another controller the fleet can't see the end")


def check_cron_job(cron: Field, policy: Policy) -> Demand:
    """Check a CronJob. It holds what one of its Jobs holds, suspended or not: `concurrencyPolicy` and run times say how many overlap."""
    check_name(cron["metadata"], _is_cron_job_name, _CRON_JOB_NAME_RULE)
    spec, template = cron["spec"], cron.within("spec", "jobTemplate")
    schedule = spec["schedule"].text.split()
    if spec["schedule"].given and not (len(schedule) == 5 or (schedule and schedule[0] in _MACROS)):
        spec["schedule"].refuse(
            f"must be five fields (minute, hour, day of the month, month, day of the week) or one of {', '.join(_MACROS)}"
        )
    for name in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        if (spec[name].integer or 0) < 0:
            spec[name].refuse("must not be negative")
    check_marks(template["metadata"])
    return _check_job_of(template, policy)


def _is_cron_job_name(name: str) -> bool:
    return len(name) <= _LONGEST_CRON_JOB_NAME and is_dns_subdomain(name)


def _check_job_of(job: Field, policy: Policy) -> Demand:
    """Check what a Job, or the template of one, would run."""
    spec, template = job["spec"], job.within("spec", "template")
    if not isinstance(spec.value, dict):
        spec.refuse("must be given in Job")
    _check_spec(spec)
    check_pod_template(template, policy)
    return check_caps(template["spec"], spec["parallelism"], pod_demand(template["spec"], policy), pods_at_once(job), policy)


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
            spec["completions"].refuse("must be given with completionMode Indexed")
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
