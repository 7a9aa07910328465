"""Which variables of the workers an installation may set: settings of `shared/settings.py` that hold where the stacks run the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import ValidationError

from infra.cdk.problems import pointer, problems_of
from shared.errors import InvalidError, Problem
from shared.metrics.rollups import measures_of
from shared.metrics.series import Label
from shared.settings import Settings

PREFIX: Final = "GPUFLEET_"
_NO_FILE: Final = "must not be set: no function and no pod has files of yours"
_DECIDED: Final = "must not be set: the stacks decide that"
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("CONTROL_REGION", "REGIONS", "TABLE", "BUCKET", "QUEUE_PREFIX", "SECRETS_PREFIX"),
            *("IDENTITY", "KUEUE_QUEUE", "CLUSTER_REGION", "EKS_CLUSTERS"),
        ),
        _DECIDED,
    ),
    **dict.fromkeys(("PROBE_HOST", "PROBE_PORT", "METRICS_HOST", "METRICS_PORT"), f"{_DECIDED}, and what asks there is made to fit"),
    **dict.fromkeys(("KUBECONFIG", "POLICY_FILE", "SPOT_PRICES_FILE", "PROMETHEUS_TOKEN_FILE"), _NO_FILE),
    "METRICS_DIRECT": "must not be set: the function that reads GPUs is in no cluster's network",
    "METRICS_SECONDS": "must not be set: a schedule calls the function that reads GPUs each minute",
    "SWEEP_SECONDS": "must not be set: a schedule calls the functions that sweep each minute",
    "WEBHOOK_STREAM_LEASE_SECONDS": "must not be set: AWS Lambda reads the table's stream",
    "RATE_LIMIT": "must not be set: in front of functions API Gateway throttles (api.rate, api.burst)",
    "WEBHOOK_LOCAL": "must not be set: it lets webhooks reach what is inside, and is for a fleet on one machine",
}
_IN_WORDS: Final[Mapping[str, str]] = {
    "metrics_rollups": "must be labels joined by +: region, and after it any of node, device, vendor, namespace, project, job_id",
    "prometheus_url": "must be an address that begins with http:// or https://, without a user before the host",
    "opencost_url": "must be an address that begins with http:// or https://",
}
"""The rules of `shared.settings` that are patterns there."""


def check_variables(environment: Mapping[str, str], metrics: Mapping[str, tuple[str, str]]) -> Iterator[Problem]:
    """What is wrong with `environment`, and with what `metrics` makes variables of: for each its value and its place in the settings."""
    fields: dict[str, str] = {}
    places: dict[str, str] = {}
    for name, (value, place) in metrics.items():
        fields[_field(name)], places[_field(name)] = value, place
    for name, value in environment.items():
        place = pointer("environment", name)
        if name in metrics:
            yield Problem(pointer=place, value=value, rule=f"must not be set together with {metrics[name][1]}, which says the same")
        elif (rule := _REFUSED.get(name.removeprefix(PREFIX))) is not None:
            yield Problem(pointer=place, value=value, rule=rule)
        elif _field(name) not in Settings.model_fields:
            yield Problem(pointer=place, value=value, rule="must be a setting of shared/settings.py")
        else:
            fields[_field(name)], places[_field(name)] = value, place
    yield from _refused_by_workers(fields, places)


def _refused_by_workers(fields: Mapping[str, str], places: Mapping[str, str]) -> Iterator[Problem]:
    refused = set()
    try:
        Settings(**fields)  # type: ignore[arg-type] # texts, as the environment has them
    except ValidationError as error:
        for one in problems_of(error):
            _, field, *steps = one.pointer.split("/")
            # The environment of who synthesizes may hold others, which are not of the installation.
            if field in fields:
                refused.add(field)
                rule = _IN_WORDS.get(field, one.rule) if one.rule.startswith("must match") else one.rule
                # A variable is one text; a list of the settings has members.
                parts = steps if not places[field].startswith("/environment/") else ()
                yield Problem(pointer=places[field] + pointer(*parts), value=one.value, rule=rule)
    if "metrics_measures" in fields:
        try:
            measures_of(_words(fields["metrics_measures"]), field=places["metrics_measures"])
        except InvalidError as error:
            yield from error.problems
    largest = int(Settings.model_fields["max_body_bytes"].default)
    if "max_body_bytes" not in refused and float(fields.get("max_body_bytes", 0)) > largest:
        rule = f"must not be more than {largest}: AWS Lambda takes no larger request"
        yield Problem(pointer=places["max_body_bytes"], value=fields["max_body_bytes"], rule=rule)
    rollups = [] if "metrics_rollups" in refused else _words(fields.get("metrics_rollups", ""))
    if rollups and Label.REGION not in rollups:
        rule = f"must have {Label.REGION} among them, by which the dashboards' graphs of GPUs ask (or be empty: nothing is written)"
        yield Problem(pointer=places["metrics_rollups"], value=fields["metrics_rollups"], rule=rule)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _field(name: str) -> str:
    return name.removeprefix(PREFIX).lower()
