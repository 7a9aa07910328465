"""Roles of IAM from `infra.roles`: nothing else grants rights to a worker."""

from __future__ import annotations

from dataclasses import replace

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.nag import acknowledge
from infra.cdk.names import Naming
from infra.pods import SERVICE, session_tags
from infra.policies import document
from infra.resources import Kind, Resource
from infra.roles import role as role_of


def worker_role(
    scope: Construct, construct_id: str, *, worker: str, naming: Naming, key: str, trusted: iam.IPrincipal, region: str | None = None
) -> iam.Role:
    """The role of a worker, with its rights as an inline policy, so that the role never is there without them."""
    described = role_of(worker)
    names = naming.resources(key=key, own_region=region)
    role = iam.Role(
        scope,
        construct_id,
        role_name=naming.role(worker, region),
        description=f"{naming.installation.name}: {worker}" + (f" of {region}" if region else ""),
        assumed_by=trusted,
        inline_policies={"worker": iam.PolicyDocument.from_json(document(described, names))},
    )
    told = replace(naming, account="<AWS::AccountId>", partition="<AWS::Partition>").resources(key=None, own_region=region)
    for resource in dict.fromkeys(resource for statement in described.statements for resource in statement.resources):
        if (reason := _reason(resource)) is not None:
            acknowledge(role, "AwsSolutions-IAM5", reason, *(f"Resource::{arn}" for arn in told.arns(resource)))
    return role


def pods(naming: Naming, *, namespace: str, account: str, region: str) -> iam.IPrincipal:
    """The pods of a service account on one cluster, as EKS Pod Identity says who they are (`infra.pods`)."""
    tags = session_tags(cluster=naming.cluster_arn(region), namespace=namespace, account=account)
    return iam.SessionTagsPrincipal(iam.ServicePrincipal(SERVICE, conditions={"StringEquals": tags}))


def _reason(resource: Resource) -> str | None:
    """Why a role is for whatever begins so; None where its ARN is whole."""
    match resource.kind:
        case Kind.OBJECTS:
            return f"the objects under {resource.name}: their names come from jobs and times"
        case Kind.STREAM:
            return "the ARN of a stream has the time of its making in it"
        case Kind.SECRETS:
            return "secrets of webhooks are made at run time, under this prefix and no other"
        case Kind.LOGS:
            return "the streams of the function's own log group, which Lambda names"
        case Kind.ANY:
            return resource.name
        case _:
            return None
