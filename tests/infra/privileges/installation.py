"""A fleet's resources by bootstrap, its roles straight from `infra.roles`, and its functions over the code of this checkout.

No stack is needed for it: what is shown here holds for the roles as they are written. The stacks' own are tried in `tests/infra/deployed`.
"""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

from infra.functions import FUNCTIONS, Function, QueueSource, StreamSource
from infra.policies import document
from infra.resources import Names
from infra.roles import ROLES
from tests.infra.accounts import ACCOUNT
from tests.infra.fleet import USERS, EnforcedFleet
from tests.infra.manifests import manifests
from workers.local import environment, plan, readiness
from workers.local.bootstrapping import bootstrap_at
from workers.local.child import ChildSpec

_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


class FromRoles:
    """Implements `tests.infra.fleet.Installation`."""

    cluster_arguments = ()

    def manifests(self) -> str:
        return manifests()

    def names(self, fleet: EnforcedFleet, region: str | None = None) -> Names:
        """How the resources are called."""
        regions = fleet.options.regions
        clusters = dict.fromkeys(regions, "gpufleet")
        return Names(
            account=ACCOUNT,
            control_region="us-east-1",
            regions=regions,
            table="gpufleet",
            bucket="gpufleet",
            queue_prefix="gpufleet",
            clusters=clusters,
            own_region=region,
        )

    def role(self, worker: str, region: str | None = None) -> str:
        return "-".join(part for part in ("gpufleet", worker, region) if part)

    def policies(self, fleet: EnforcedFleet) -> dict[str, dict[str, Any]]:
        """The policy of each role, by its name."""
        found = {}
        for role in ROLES:
            for region in fleet.options.regions if role.pod else (None,):
                found[self.role(role.worker, region)] = document(role, self.names(fleet, region))
        return found

    async def install(self, fleet: EnforcedFleet) -> None:
        await bootstrap_at(fleet.layout.aws_endpoint, {**fleet.worker_env, **fleet.aws_env})
        await asyncio.to_thread(self._install, fleet)

    def _install(self, fleet: EnforcedFleet) -> None:
        with fleet.client("iam") as iam:
            for name, policy in self.policies(fleet).items():
                iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
                iam.put_role_policy(RoleName=name, PolicyName="worker", PolicyDocument=json.dumps(policy))
        for region in fleet.options.regions:
            with fleet.client("eks", region) as eks:
                network = {"subnetIds": ["subnet-1", "subnet-2"]}
                eks.create_cluster(name="gpufleet", roleArn=f"arn:aws:iam::{ACCOUNT}:role/gpufleet-api", resourcesVpcConfig=network)
        with fleet.client("dynamodb") as dynamodb:
            stream = dynamodb.describe_table(TableName="gpufleet")["Table"]["LatestStreamArn"]
        with fleet.client("lambda") as functions:
            for function in FUNCTIONS:
                self._make(fleet, functions, function)
            for function in FUNCTIONS:
                for source in function.sources:
                    if isinstance(source, QueueSource):
                        arn, more = f"arn:aws:sqs:us-east-1:{ACCOUNT}:gpufleet-{source.queue}", {}
                    elif isinstance(source, StreamSource):
                        patterns = [{"Pattern": json.dumps(one)} for one in source.filters]
                        arn, more = stream, {"StartingPosition": "TRIM_HORIZON", "FilterCriteria": {"Filters": patterns}}
                    else:
                        continue
                    functions.create_event_source_mapping(
                        EventSourceArn=arn,
                        FunctionName=f"gpufleet-{function.name}",
                        BatchSize=source.batch_size,
                        FunctionResponseTypes=["ReportBatchItemFailures"],
                        **more,
                    )

    def _make(self, fleet: EnforcedFleet, functions: Any, function: Function) -> None:
        kubeconfig = fleet.kubeconfig_of(function.role if function.role in USERS else "api")
        variables = self.variables(fleet) | {"GPUFLEET_KUBECONFIG": str(kubeconfig), **function.environment}
        functions.create_function(
            FunctionName=f"gpufleet-{function.name}",
            Runtime="python3.12",
            Handler=function.handler,
            Role=f"arn:aws:iam::{ACCOUNT}:role/{self.role(function.role)}",
            Code={"ZipFile": _package()},
            MemorySize=function.memory_mb,
            Timeout=function.timeout_seconds,
            Environment={"Variables": variables},
        )

    def variables(self, fleet: EnforcedFleet) -> dict[str, str]:
        """The settings of every worker, without what says who it is. Prices are asked of AWS, which the emulator refuses to tell."""
        found = {name: value for name, value in fleet.worker_env.items() if name.startswith("GPUFLEET_")}
        del found["GPUFLEET_SPOT_PRICES_FILE"]
        return found

    def pod_environment(self, fleet: EnforcedFleet, worker: str, region: str) -> Mapping[str, str]:
        return {**self.variables(fleet), "AWS_REGION": region}

    def api_specs(self, fleet: EnforcedFleet) -> list[ChildSpec]:
        """The API as a process, with the role of the function: it can be asked everything, streams among it."""
        variables = {
            **environment.base(),
            "AWS_ENDPOINT_URL": fleet.layout.aws_endpoint,
            "AWS_REGION": "us-east-1",
            **self.variables(fleet),
            **fleet.credentials("api").variables,
            "GPUFLEET_KUBECONFIG": str(fleet.kubeconfig_of("api")),
            "GPUFLEET_API_PORT": str(fleet.layout.api_port),
        }
        return [
            ChildSpec(
                name="api",
                arguments=plan._module("workers.api"),
                environment=variables,
                stage=plan.WORKERS,
                ready=readiness.answers(fleet.layout.api_port, "/readyz"),
                start_seconds=60.0,
            )
        ]

    async def close(self) -> None:
        return None


def _package() -> bytes:
    """An archive with nothing in it that counts: the functions import this checkout, which is on the emulator's path."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as archive:
        archive.writestr("README", "the code is that of the checkout")
    return found.getvalue()
