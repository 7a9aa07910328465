"""The bucket of specifications, logs, usage and reports, and the one that its accesses are logged in."""

from __future__ import annotations

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.nag import acknowledge

_USAGE: Final = ("usage/", "reports/", "jobs/", "summaries/", "adhoc/", "adhoc-jobs/", "adhoc-summaries/")
"""What costs are made of and what is made of them; specifications, templates and logs stay as long as nobody deletes them."""
_TLS: Final = 1.2
_OLD_VERSIONS_DAYS: Final = 30
_OLD_USAGE_DAYS: Final = 1
"""An observer writes its account of the hour that runs every ten minutes, over the one before."""
_UPLOAD_DAYS: Final = 7
_ACCESS_LOG_DAYS: Final = 90


class FleetBucket(Construct):
    """The bucket. What was overwritten or deleted can be had back for a month."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str, key: kms.IKey, removal: RemovalPolicy, usage_days: int) -> None:
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
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="old-versions",
                    noncurrent_version_expiration=Duration.days(_OLD_VERSIONS_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(_UPLOAD_DAYS),
                ),
                *(
                    s3.LifecycleRule(
                        id=prefix.rstrip("/"),
                        prefix=prefix,
                        expiration=Duration.days(usage_days),
                        noncurrent_version_expiration=Duration.days(_OLD_USAGE_DAYS),
                    )
                    for prefix in _USAGE
                ),
                # The last scrape of each region, over the one before, each minute.
                s3.LifecycleRule(id="metrics", prefix="metrics/", noncurrent_version_expiration=Duration.days(_OLD_USAGE_DAYS)),
            ],
        )
