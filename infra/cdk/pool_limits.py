"""How many nodes a pool may have: told to EKS by a call of its own, since CloudFormation can't tell it without ending nodes.

A group can't be made without a desired size (`desiredSize is required`: https://github.com/aws/aws-k8s-tester/pull/168), and a stack
that changes any part of a group's sizes sends all of them: the autoscaler's desired size would go back to the template's, and what runs on
the nodes would end (https://github.com/eksctl-io/eksctl/issues/3532). So the sizes in a template never change, and the largest is set by
`UpdateNodegroupConfig`, which may leave the others out (https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html).
A size below what runs is refused by EKS: the deployment fails, and the nodes stay.
"""

from __future__ import annotations

from typing import Final

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import custom_resources as resources
from constructs import Construct

from infra.cdk.cluster import FleetCluster
from infra.cdk.nag import acknowledge
from infra.cdk.names import Naming

UNSET: Final = 1
"""The most nodes of a pool whose group has just been made."""


class PoolLimits(Construct):
    """The limits of a cluster's pools, and the role with which they are set."""

    def __init__(self, scope: Construct, construct_id: str, *, cluster: FleetCluster, naming: Naming, region: str) -> None:
        super().__init__(scope, construct_id)
        self._cluster = cluster
        groups = f"arn:{naming.partition}:eks:{region}:{naming.account}:nodegroup/{naming.cluster(region)}/*"
        self._role = iam.Role(
            self,
            "Role",
            description=f"{naming.cluster(region)}: sets how many nodes a pool may have when the stack is deployed",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={
                "limits": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(actions=["eks:UpdateNodegroupConfig"], resources=[groups]),
                        iam.PolicyStatement(
                            actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[cluster.deploying_log.log_group_arn]
                        ),
                    ]
                )
            },
        )
        told = f"arn:<AWS::Partition>:eks:{region}:<AWS::AccountId>:nodegroup/{naming.cluster(region)}/*"
        acknowledge(self._role, "AwsSolutions-IAM5", "the groups of this cluster, which EKS names", f"Resource::{told}")

    def set(self, pool: str, group: eks.Nodegroup, most: int) -> None:
        """Have a group's largest size set, once it is made and whenever it is another."""
        call = resources.AwsSdkCall(
            service="EKS",
            action="updateNodegroupConfig",
            parameters={
                "clusterName": self._cluster.cluster.cluster_name,
                "nodegroupName": group.node.default_child.get_att("NodegroupName").to_string(),
                "scalingConfig": {"maxSize": most},
            },
            physical_resource_id=resources.PhysicalResourceId.of(f"{pool}-limit"),
        )
        resources.AwsCustomResource(
            self,
            pool,
            on_update=call,  # and when it is made
            role=self._role.without_policy_updates(),
            log_group=self._cluster.deploying_log,
            install_latest_aws_sdk=False,
        )
