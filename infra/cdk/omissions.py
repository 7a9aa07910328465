"""What an installation leaves out that is missed when something has gone wrong: told when its stacks are synthesized, and no fault."""

from __future__ import annotations

from collections.abc import Iterator

from infra.cdk.settings import Installation


def omissions(installation: Installation) -> Iterator[str]:
    """A line for each, with the setting that mends it."""
    alarms = installation.alarms
    if alarms.email is None and alarms.topic_arn is None:
        yield "nobody is told of alarms, which show on dashboards only: set alarms.email or alarms.topic_arn"
    if not installation.administrators:
        yield "nobody may use kubectl on the clusters, which the runbooks of alarms need: set administrators"
    if installation.variables.get("GPUFLEET_METRICS_ROLLUPS") == "":
        yield "nothing of GPUs is written to CloudWatch, so its graphs and the alarms `exporters` see nothing: set metrics.rollups"
