"""The Lambda functions of `infra.functions`, with their roles, logs and what calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.cdk.names import Naming
from infra.cdk.packages import package
from infra.functions import ARCHITECTURE, PYTHON, Function, QueueSource, ScheduleSource, StreamSource
from shared.settings import Settings

_RUNTIME: Final = lambda_.Runtime(f"python{PYTHON}", lambda_.RuntimeFamily.PYTHON)


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """What functions stand behind: the queues' ARNs by their short names, and the table's stream."""

    queues: Mapping[str, str]
    stream_arn: str


class FleetFunction(Construct):
    """One function."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: Function,
        naming: Naming,
        role: iam.Role,
        key: kms.IKey,
        packages: Path,
        places: Places,
        environment: Mapping[str, str],
        removal: RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        installation = naming.installation
        log_group = logs.CfnLogGroup(
            self,
            "Logs",
            log_group_name=naming.log_group(function),
            retention_in_days=installation.log_retention_days,
            kms_key_id=key.key_arn,
        )
        log_group.apply_removal_policy(removal)
        scheduled = any(isinstance(source, ScheduleSource) for source in function.sources)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=naming.function(function),
            description=function.text,
            runtime=_RUNTIME,
            architecture=lambda_.Architecture.custom(ARCHITECTURE),
            code=lambda_.Code.from_asset(str(package(packages, function.name))),
            handler=function.handler,
            # What CDK would grant of its own is left out: `infra.roles` says it all.
            role=role.without_policy_updates(),
            memory_size=function.memory_mb,
            timeout=Duration.seconds(function.timeout_seconds),
            environment={**function.environment, **environment},
            # A schedule's call that failed is not made again: the next one does what it left.
            retry_attempts=0 if scheduled else None,
            max_event_age=Duration.minutes(1) if scheduled else None,
        )
        self.function.node.add_dependency(log_group)
        for number, source in enumerate(function.sources):
            match source:
                case QueueSource():
                    _behind_queue(self, f"Source{number}", self.function, source, places)
                case StreamSource():
                    _behind_stream(self, f"Source{number}", self.function, source, places)
                case ScheduleSource():
                    _on_schedule(self, naming, function, self.function, source)


def _behind_queue(scope: Construct, construct_id: str, function: lambda_.Function, source: QueueSource, places: Places) -> None:
    lambda_.EventSourceMapping(
        scope,
        construct_id,
        target=function,
        event_source_arn=places.queues[source.queue],
        batch_size=source.batch_size,
        max_batching_window=Duration.seconds(source.batching_window_seconds) if source.batching_window_seconds else None,
        max_concurrency=source.maximum_concurrency,
        report_batch_item_failures=True,
    )


def _behind_stream(scope: Construct, construct_id: str, function: lambda_.Function, source: StreamSource, places: Places) -> None:
    lambda_.EventSourceMapping(
        scope,
        construct_id,
        target=function,
        event_source_arn=places.stream_arn,
        batch_size=source.batch_size,
        max_batching_window=Duration.seconds(source.batching_window_seconds) if source.batching_window_seconds else None,
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,
        report_batch_item_failures=True,
        filters=[lambda_.FilterCriteria.filter(dict(pattern)) for pattern in source.filters],
    )


def _on_schedule(scope: Construct, naming: Naming, described: Function, function: lambda_.Function, source: ScheduleSource) -> None:
    regions: Sequence[str] = naming.installation.region_names if source.each_region else ("",)
    for region, payload in zip(regions, source.payloads(naming.installation.region_names), strict=True):
        name = "-".join(part for part in (naming.function(described), region) if part)
        events.Rule(
            scope,
            f"Schedule{region}",
            rule_name=name,
            description=f"{described.text}: every {source.minutes} min",
            schedule=events.Schedule.rate(Duration.minutes(source.minutes)),
            targets=[
                targets.LambdaFunction(
                    function, event=events.RuleTargetInput.from_object(dict(payload)), retry_attempts=0, max_event_age=Duration.minutes(1)
                )
            ],
        )


def visibility_seconds(settings: Settings, queue: str, functions: Sequence[Function]) -> int:
    """The visibility timeout that a queue needs for the functions behind it, in seconds; 0 where none is."""
    return max(
        (
            function.visibility_seconds
            for function in functions
            for source in function.sources
            if isinstance(source, QueueSource) and f"{settings.queue_prefix}-{source.queue}" == queue
        ),
        default=0,
    )
