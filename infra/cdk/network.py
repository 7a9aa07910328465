"""The network of a region's cluster: nodes in private subnets, one NAT gateway unless more are wanted, free endpoints for what is large."""

from __future__ import annotations

import ipaddress
from typing import Final

from aws_cdk import Fn, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.cdk.settings import Installation, Region

_PRIVATE: Final = 20
"""The mask of a private subnet: 4,091 addresses, of which each pod has one."""


def _private(network: str) -> int:
    """The mask of a private subnet: in a small network a quarter of it, so that three have room beside the public ones."""
    return max(_PRIVATE, ipaddress.ip_network(network).prefixlen + 2)


class ClusterNetwork(Construct):
    """A VPC whose flows are logged. Layers of images and objects go past the NAT gateway, by gateway endpoints."""

    def __init__(self, scope: Construct, construct_id: str, *, installation: Installation, region: Region, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            vpc_name=installation.name,
            ip_addresses=ec2.IpAddresses.cidr(region.network),
            # CDK itself knows of two only where the account isn't named.
            availability_zones=[Fn.select(number, Fn.get_azs()) for number in range(region.zones)],
            nat_gateways=region.nat_gateways,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24, map_public_ip_on_launch=False),
                ec2.SubnetConfiguration(name="private", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=_private(region.network)),
            ],
            gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
        )
        log_group = logs.CfnLogGroup(
            self,
            "Flows",
            log_group_name=f"/aws/vpc/{installation.name}/flows",
            retention_in_days=installation.log_retention_days,
            kms_key_id=key.key_arn,
        )
        log_group.apply_removal_policy(RemovalPolicy.DESTROY)
        role = iam.Role(
            self,
            "FlowsRole",
            assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"),
            inline_policies={
                "logs": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"], resources=[log_group.attr_arn]
                        )
                    ]
                )
            },
        )
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=self.vpc.vpc_id,
            resource_type="VPC",
            # What was accepted is what the fleet does all day; what was refused is what somebody wants to know.
            traffic_type="REJECT",
            log_destination_type="cloud-watch-logs",
            log_group_name=log_group.ref,
            deliver_logs_permission_arn=role.role_arn,
        )
