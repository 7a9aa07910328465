"""What things are called: physical names that follow from the settings, so that one stack names what another has made.

No stack imports a value of another region's: IAM roles, the table and the queues are found by name, and a region can come and go without
the others being deployed anew for its exports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aws_cdk import Aws

from infra.cdk.settings import Installation
from infra.functions import Function
from infra.resources import Names
from shared.settings import Settings


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of an installation. The account and the partition are those of the stack in which a name is written."""

    installation: Installation
    account: str = Aws.ACCOUNT_ID
    partition: str = Aws.PARTITION

    @property
    def bucket(self) -> str:
        """The bucket."""
        one = self.installation
        return one.bucket or f"{one.name}-{self.account}-{one.control_region}"

    @property
    def settings(self) -> Settings:
        """The workers' settings, of what names resources."""
        return self.installation.settings(bucket=self.bucket)

    def cluster(self, region: str) -> str:
        """The EKS cluster of a region; names are a region's own, so all have the same."""
        del region
        return self.installation.name

    def cluster_arn(self, region: str) -> str:
        """The ARN of the EKS cluster of a region."""
        return f"arn:{self.partition}:eks:{region}:{self.account}:cluster/{self.cluster(region)}"

    def role(self, worker: str, region: str | None = None) -> str:
        """The IAM role of a worker; roles are an account's, so those of a region say which."""
        return "-".join(part for part in (self.installation.name, worker, region) if part)

    def role_arn(self, worker: str, region: str | None = None) -> str:
        """The ARN of the role of a worker."""
        return f"arn:{self.partition}:iam::{self.account}:role/{self.role(worker, region)}"

    def function(self, function: Function) -> str:
        """A Lambda function."""
        return f"{self.installation.name}-{function.name}"

    def log_group(self, function: Function) -> str:
        """The log group that Lambda writes to for a function."""
        return f"/aws/lambda/{self.function(function)}"

    def resources(self, *, key: str | None, own_region: str | None = None) -> Names:
        """The names by which rights are rendered."""
        settings = self.settings
        return Names(
            account=self.account,
            partition=self.partition,
            control_region=settings.control_region,
            regions=settings.regions,
            table=settings.table,
            bucket=settings.bucket,
            queue_prefix=settings.queue_prefix,
            clusters={region: self.cluster(region) for region in settings.regions},
            key=key,
            own_region=own_region,
            secrets_prefix=settings.secrets_prefix,
        )

    def environment(self) -> dict[str, str]:
        """The `GPUFLEET_…` variables that every worker has, wherever it runs."""
        settings = self.settings
        return {
            **self.installation.variables,
            "GPUFLEET_CONTROL_REGION": settings.control_region,
            "GPUFLEET_REGIONS": ",".join(settings.regions),
            "GPUFLEET_TABLE": settings.table,
            "GPUFLEET_BUCKET": settings.bucket,
            "GPUFLEET_QUEUE_PREFIX": settings.queue_prefix,
            "GPUFLEET_SECRETS_PREFIX": settings.secrets,
        }

    def clusters_variable(self) -> str:
        """`GPUFLEET_EKS_CLUSTERS`: where a process outside of the clusters finds them."""
        return ",".join(f"{region}={self.cluster(region)}" for region in self.installation.region_names)


def tags(installation: Installation) -> dict[str, Any]:
    """What everything is tagged with."""
    return {"gpufleet:installation": installation.name}
