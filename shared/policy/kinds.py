"""The kinds that admission has rules for, each with its rules: whatever way an object comes in, it is judged by these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shared.policy.fields import Field
from shared.policy.jobs import check_cron_job, check_job
from shared.policy.resources import Demand
from shared.policy.settings import Policy
from shared.policy.supporting import check_config_map, check_service
from shared.policy.train_jobs import check_train_job
from shared.policy.workloads import check_bare_pod, check_daemon_set, check_deployment, check_stateful_set

RULES: Final[dict[tuple[str, str], Callable[[Field, Policy], Demand]]] = {
    ("batch/v1", "Job"): check_job,
    ("batch/v1", "CronJob"): check_cron_job,
    ("apps/v1", "Deployment"): check_deployment,
    ("apps/v1", "StatefulSet"): check_stateful_set,
    ("apps/v1", "DaemonSet"): check_daemon_set,
    ("v1", "Service"): check_service,
    ("v1", "ConfigMap"): check_config_map,
    ("v1", "Pod"): check_bare_pod,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): check_train_job,
}
"""By apiVersion and kind. Each refuses what is wrong with an object whose structure and metadata were looked at already, and returns what
it would hold of the cluster at once."""
