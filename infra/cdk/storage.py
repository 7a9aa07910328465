"""The bucket of specifications, logs, usage and reports, and the one that its accesses are logged in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.nag import acknowledge
from shared.store.lifecycle import LifecycleRule

_TLS: Final = 1.2
_ACCESS_LOG_DAYS: Final = 90


class FleetBucket(Construct):
    """The bucket, which keeps things as long as rules of `shared.store.lifecycle` say. What is gone can be had back for a month."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, key: kms.IKey, removal: RemovalPolicy, kept: Sequence[LifecycleRule]
    ) -> None:
        super().__init__(scope, construct_id)
        access_logs = s3.Bucket(
            self,
            "AccessLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=_TLS,
            removal_policy=removal,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(_ACCESS_LOG_DAYS))],
        )
        acknowledge(access_logs, "AwsSolutions-S1", "it holds the access logs; logging accesses to them would never end")
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=_TLS,
            versioned=True,
            removal_policy=removal,
            server_access_logs_bucket=access_logs,
            lifecycle_rules=[_rule(one) for one in kept],
        )


def _rule(rule: LifecycleRule) -> s3.LifecycleRule:
    return s3.LifecycleRule(
        id=rule.id,
        prefix=rule.prefix or None,
        expiration=_days(rule.days),
        noncurrent_version_expiration=_days(rule.old_version_days),
        abort_incomplete_multipart_upload_after=_days(rule.upload_days),
    )


def _days(days: int | None) -> Duration | None:
    return None if days is None else Duration.days(days)
