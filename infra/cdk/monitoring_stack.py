"""Alarms and dashboards, in the control region: there are all figures of the fleet, those of its regions too."""

from __future__ import annotations

from typing import Any

from aws_cdk import Aws, CfnOutput, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.cdk.alarms import FleetAlarms
from infra.cdk.control_stack import ControlStack
from infra.cdk.dashboards import fleet_dashboard, region_dashboard
from infra.cdk.names import Naming
from infra.cdk.settings import Installation


class MonitoringStack(Stack):
    """What tells how the fleet is. It keeps nothing: it can be deleted and made again at any time."""

    def __init__(self, scope: Construct, construct_id: str, *, installation: Installation, control: ControlStack, **options: Any) -> None:
        super().__init__(scope, construct_id, **options)
        naming = Naming(installation)
        api_ids = [api.api.api_id for api in control.apis.values()]
        topic = self._topic(installation, control)
        self.alarms = FleetAlarms(self, "Alarms", naming=naming, api_ids=api_ids, topic=topic)
        fleet_dashboard(self, naming=naming, alarms=self.alarms, api_ids=api_ids)
        for region in installation.region_names:
            region_dashboard(self, naming=naming, alarms=self.alarms, region=region)
        if topic is not None:
            CfnOutput(self, "AlarmTopic", value=topic.topic_arn)

    def _topic(self, installation: Installation, control: ControlStack) -> sns.ITopic | None:
        wanted = installation.alarms
        if wanted.topic_arn is not None:
            return sns.Topic.from_topic_arn(self, "Topic", wanted.topic_arn)
        if wanted.email is None:
            return None
        name = f"{installation.name}-alarms"
        topic = sns.Topic(self, "Topic", topic_name=name, display_name=installation.name, master_key=control.key, enforce_ssl=True)
        alarms = f"arn:{Aws.PARTITION}:cloudwatch:{installation.control_region}:{Aws.ACCOUNT_ID}:alarm:{installation.name}-*"
        # A topic with a policy of its own takes from nobody who isn't in it. The key has a statement for the alarms as well.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                actions=["sns:Publish"],
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}, "ArnLike": {"aws:SourceArn": alarms}},
            )
        )
        topic.add_subscription(subscriptions.EmailSubscription(wanted.email))
        return topic
