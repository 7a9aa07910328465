"""The kinds that admission has rules for, each with its rules: whatever way an object comes in, it is judged by these."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from shared.policy.fields import Field
from shared.policy.jobs import check_cron_job, check_job
from shared.policy.resources import Demand
from shared.policy.settings import Policy
from shared.policy.supporting import check_config_map, check_service

Rule = Callable[[Field, Policy], Demand]


def _later(module: str, name: str) -> Rule:
    """A rule whose module is imported when it is first asked for: most processes meet nothing but jobs of the queue."""

    def check(found: Field, policy: Policy) -> Demand:
        rule: Rule = getattr(import_module(module), name)
        return rule(found, policy)

    return check


_WORKLOADS: Final = "shared.policy.workloads"

RULES: Final[dict[tuple[str, str], Rule]] = {
    ("batch/v1", "Job"): check_job,
    ("batch/v1", "CronJob"): check_cron_job,
    ("apps/v1", "Deployment"): _later(_WORKLOADS, "check_deployment"),
    ("apps/v1", "StatefulSet"): _later(_WORKLOADS, "check_stateful_set"),
    ("apps/v1", "DaemonSet"): _later(_WORKLOADS, "check_daemon_set"),
    ("v1", "Service"): check_service,
    ("v1", "ConfigMap"): check_config_map,
    ("v1", "Pod"): _later(_WORKLOADS, "check_bare_pod"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): _later("shared.policy.train_jobs", "check_train_job"),
}
"""By apiVersion and kind. Each refuses what is wrong with an object whose structure and metadata were looked at already, and returns what
it would hold of the cluster at once."""
