"""The key of the table, the bucket, the queues, the logs and the alarms' topic: one for all, since each costs a dollar a month.

Its policy names actions one by one. The account's own principals use it only through the services that hold what it encrypts, and only
those whose role says so (`infra.policies`).
"""

from __future__ import annotations

from typing import Final

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

_ADMINISTRATION: Final = [
    f"kms:{action}"
    for action in (
        "CancelKeyDeletion",
        "CreateAlias",
        "CreateGrant",
        "DeleteAlias",
        "DescribeKey",
        "DisableKey",
        "DisableKeyRotation",
        "EnableKey",
        "EnableKeyRotation",
        "GetKeyPolicy",
        "GetKeyRotationStatus",
        "ListAliases",
        "ListGrants",
        "ListKeyPolicies",
        "ListKeyRotations",
        "ListResourceTags",
        "PutKeyPolicy",
        "RevokeGrant",
        "RotateKeyOnDemand",
        "ScheduleKeyDeletion",
        "TagResource",
        "UntagResource",
        "UpdateAlias",
        "UpdateKeyDescription",
    )
]
_USE: Final = [
    f"kms:{action}"
    for action in ("Encrypt", "Decrypt", "ReEncryptFrom", "ReEncryptTo", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext")
]
_ROTATION: Final = Duration.days(365)


class FleetKey(kms.Key):
    """A key for the services of one region that hold what belongs to the fleet, turned once a year."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str, region: str, services: list[str], removal: RemovalPolicy) -> None:
        super().__init__(
            scope,
            construct_id,
            alias=f"alias/{name}",
            description=f"{name}: what the fleet keeps in {region}",
            enable_key_rotation=True,
            rotation_period=_ROTATION,
            removal_policy=removal,
            policy=iam.PolicyDocument(statements=_statements(region, services)),
        )


def _statements(region: str, services: list[str]) -> list[iam.PolicyStatement]:
    account, here = iam.AccountRootPrincipal(), {"aws:SourceAccount": Aws.ACCOUNT_ID}
    logs = f"arn:{Aws.PARTITION}:logs:{region}:{Aws.ACCOUNT_ID}:log-group:*"
    return [
        iam.PolicyStatement(sid="Administration", actions=_ADMINISTRATION, principals=[account], resources=["*"]),
        iam.PolicyStatement(
            sid="UseThroughServices",
            actions=_USE,
            principals=[account],
            resources=["*"],
            conditions={"StringEquals": {"kms:ViaService": [f"{service}.{region}.amazonaws.com" for service in services]}},
        ),
        iam.PolicyStatement(
            sid="Logs",
            actions=[*_USE, "kms:DescribeKey"],
            principals=[iam.ServicePrincipal(f"logs.{region}.amazonaws.com")],
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": logs}},
        ),
        iam.PolicyStatement(
            sid="Alarms",
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            resources=["*"],
            conditions={"StringEquals": here},
        ),
    ]
