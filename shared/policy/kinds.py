"""The kinds of objects that may be applied directly, each with its rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shared.policy.fields import Field
from shared.policy.jobs import check_job, job_demand
from shared.policy.resources import Demand
from shared.policy.settings import Policy
from shared.policy.supporting import check_supporting

Rules = Callable[[Field, Policy], Demand]
"""Refuses what is wrong with an object whose structure and metadata are looked at already; returns what it would hold at once."""


def _job(job: Field, policy: Policy) -> Demand:
    check_job(job, policy)
    return job_demand(job, policy)


def _service(service: Field, _: Policy) -> Demand:
    check_supporting(service, "Service")
    return Demand()


def _config_map(config: Field, _: Policy) -> Demand:
    check_supporting(config, "ConfigMap")
    return Demand()


RULES: Final[dict[tuple[str, str], Rules]] = {
    ("batch/v1", "Job"): _job,
    ("v1", "Service"): _service,
    ("v1", "ConfigMap"): _config_map,
}
