"""The control region: the table, the bucket, every queue, the functions and what calls them, the API.

The queues of doorbells stand here too, since the workers look for all queues where the table is (`Settings.control_region`); and in this
stack, since every function opens every region's queue when it starts: with them in a stack of their own there would be a time in which the
functions knew a region whose queue is not there. So are the roles of the workers in the clusters, whose rights are to what is here. A
region's cluster finds them by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.functions import FleetFunction, Places, visibility_seconds
from infra.cdk.http_api import FleetApi
from infra.cdk.key import FleetKey
from infra.cdk.names import Naming
from infra.cdk.queues import FleetQueue
from infra.cdk.rights import pods, worker_role
from infra.cdk.settings import Installation
from infra.cdk.storage import FleetBucket
from infra.cdk.table import FleetTable
from infra.functions import FUNCTIONS, HttpApiSource, named
from infra.pods import NAMESPACE
from infra.roles import ROLES
from shared.settings import dead_letter_queue
from shared.store.lifecycle import lifecycle


class ControlStack(Stack):
    """Everything of an installation but its clusters."""

    def __init__(self, scope: Construct, construct_id: str, *, installation: Installation, packages: Path, **options: Any) -> None:
        super().__init__(scope, construct_id, **options)
        self.installation = installation
        self.naming = Naming(installation)
        settings = self.naming.settings
        self._removal = RemovalPolicy.RETAIN if installation.removal == "retain" else RemovalPolicy.DESTROY
        self.key = FleetKey(
            self,
            "Key",
            name=installation.name,
            region=installation.control_region,
            services=["dynamodb", "s3", "sqs", "sns"],
            removal=self._removal,
        )
        self.table = FleetTable(self, "Table", name=settings.table, key=self.key, removal=self._removal, existing=installation.table)
        kept = lifecycle(usage_days=installation.usage_days, log_days=installation.job_log_days)
        self.bucket = FleetBucket(self, "Bucket", name=settings.bucket, key=self.key, removal=self._removal, kept=kept)
        bells = {settings.dispatch_queue(region) for region in settings.regions}
        self.queues = {
            name: FleetQueue(
                self,
                f"Queue-{name.removeprefix(settings.queue_prefix + '-')}",
                name=name,
                key=self.key,
                # A region's bells are rung again (the sweeper), so its queue isn't kept, and the region can be added again.
                removal=RemovalPolicy.DESTROY if name in bells else self._removal,
                visibility_seconds=visibility_seconds(settings, name, FUNCTIONS),
            )
            for name in settings.queues()
        }
        self.roles = self._roles()
        self.functions = self._functions(packages)
        self.apis = self._apis()
        self.pod_roles = self._pod_roles()
        self._outputs()

    def _roles(self) -> dict[str, iam.Role]:
        """The roles of the functions, by worker."""
        return {
            role.worker: worker_role(
                self,
                f"Role-{role.worker}",
                worker=role.worker,
                naming=self.naming,
                key=self.key.key_arn,
                trusted=iam.ServicePrincipal("lambda.amazonaws.com"),
            )
            for role in ROLES
            if any(function.role == role.worker for function in FUNCTIONS)
        }

    def _functions(self, packages: Path) -> dict[str, FleetFunction]:
        prefix = self.naming.settings.queue_prefix
        places = Places(
            queues={name.removeprefix(f"{prefix}-"): queue.queue.queue_arn for name, queue in self.queues.items()},
            stream_arn=self.table.stream_arn,
        )
        found: dict[str, FleetFunction] = {}
        for function in FUNCTIONS:
            more = {"GPUFLEET_EKS_CLUSTERS": self.naming.clusters_variable()} if function.reaches_clusters else {}
            if self.installation.api.jwt is not None and "GPUFLEET_IDENTITY" in function.environment:
                more["GPUFLEET_IDENTITY"] = "iam,jwt"
            made = FleetFunction(
                self,
                f"Function-{function.name}",
                function=function,
                naming=self.naming,
                role=self.roles[function.role],
                key=self.key,
                packages=packages,
                places=places,
                environment=self.naming.environment() | more,
                removal=self._removal,
            )
            # What a function asks for when it starts is there before it is called.
            made.function.node.add_dependency(*self.table.made, *self.queues.values())
            found[function.name] = made
        return found

    def _apis(self) -> dict[str, FleetApi]:
        installation = self.installation
        apart = {
            prefix: self.functions[function.name].function
            for function in FUNCTIONS
            for source in function.sources
            if isinstance(source, HttpApiSource)
            for prefix in source.prefixes
        }
        known = {"iam": False} | ({"tokens": True} if installation.api.jwt is not None else {})
        return {
            name: FleetApi(
                self,
                f"Api-{name}",
                name=installation.name if name == "iam" else f"{installation.name}-{name}",
                function=self.functions[named("api").name].function,
                apart=apart,
                settings=installation.api,
                tokens=tokens,
                key=self.key,
                retention_days=installation.log_retention_days,
                removal=self._removal,
            )
            for name, tokens in known.items()
        }

    def _pod_roles(self) -> dict[tuple[str, str], iam.Role]:
        """The roles of the workers in the clusters, by worker and region."""
        return {
            (role.worker, region): worker_role(
                self,
                f"Role-{role.worker}-{region}",
                worker=role.worker,
                naming=self.naming,
                key=self.key.key_arn,
                trusted=pods(self.naming, namespace=NAMESPACE, account=role.worker, region=region),
                region=region,
            )
            for role in ROLES
            if role.pod
            for region in self.installation.region_names
        }

    def _outputs(self) -> None:
        settings = self.naming.settings
        told = {
            "ControlRegion": settings.control_region,
            "Regions": ",".join(settings.regions),
            "TableName": self.table.name,
            "TableStreamArn": self.table.stream_arn,
            "BucketName": self.bucket.bucket.bucket_name,
            "QueuePrefix": settings.queue_prefix,
            "SecretsPrefix": settings.secrets,
            "EksClusters": self.naming.clusters_variable(),
            "KeyArn": self.key.key_arn,
            "ApiUrl": self.apis["iam"].url,
            **({"TokensApiUrl": self.apis["tokens"].url} if "tokens" in self.apis else {}),
        }
        for name, value in told.items():
            CfnOutput(self, name, value=value)
        for name, queue in self.queues.items():
            short = "".join(part.capitalize() for part in name.removeprefix(f"{settings.queue_prefix}-").split("-"))
            CfnOutput(self, f"QueueUrl{short}", value=queue.queue.queue_url, description=name)
            CfnOutput(self, f"DeadLettersUrl{short}", value=queue.dead.queue_url, description=dead_letter_queue(name))
