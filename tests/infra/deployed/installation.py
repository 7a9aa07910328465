"""A fleet on what the synthesized stacks made, by the emulator's CloudFormation: nothing is bootstrapped beside them.

What differs from an account, all of it here: the clusters are simulated ones, so the functions are told of a kubeconfig instead of EKS;
and what the emulator's CloudFormation doesn't know (`UNKNOWN`), with what hangs on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from infra.functions import FUNCTIONS
from infra.outputs import CONTROL, environment, read
from tests.infra.accounts import ACCOUNT
from tests.infra.deployed.assembly import Assembly, Json, Pruned, pruned
from tests.infra.deployed.deploying import deploy, prepare
from tests.infra.fleet import USERS, EnforcedFleet
from workers.local.child import ChildSpec

CONTROL_REGION: Final = "us-east-1"
MONITORING: Final = "gpufleet-monitoring"
UNKNOWN: Final[Mapping[str, str]] = {
    "AWS::EC2::EIP": "the emulator has no addresses of its own",
    "AWS::EC2::FlowLog": "it has no traffic to log",
    "AWS::EC2::NatGateway": "it has no network to translate",
    "AWS::EKS::AccessEntry": "its clusters are names without an API server; the simulated ones hold callers to the same roles by RBAC",
    "AWS::EKS::Addon": "nothing runs in its clusters",
    "AWS::EKS::PodIdentityAssociation": "sessions of the pods' roles come from `tests.infra.emulator.sessions`",
    "Custom::AWS": "nothing would happen to groups without nodes",
    "Custom::AWSCDK-EKS-HelmChart": "there is no API server to install a chart in",
    "Custom::AWSCDK-EKS-KubernetesResource": "the same; what it would apply is read from the template, and its RBAC enforced",
}


class FromStacks:
    """Implements `tests.infra.fleet.Installation`."""

    cluster_arguments = ("--queue", "gpufleet")
    """The local queue that the stacks tell the workers of."""

    def __init__(self, folder: Path, regions: Sequence[str]) -> None:
        self.assembly = Assembly(folder, account=ACCOUNT)
        self.regions = {f"gpufleet-{region}": region for region in regions}
        self.outputs: dict[str, dict[str, str]] = {}
        self.left_out: dict[str, Pruned] = {}

    def role(self, worker: str, region: str | None = None) -> str:
        return "-".join(part for part in ("gpufleet", worker, region) if part)

    def manifests(self) -> str:
        stack = next(iter(self.regions))
        return "\n---\n".join(yaml.safe_dump(one) for one in self.applied(stack))

    def applied(self, stack: str) -> Iterator[Json]:
        """The objects that a region's stack applies to its cluster."""
        for resource in self.assembly.template(stack)["Resources"].values():
            if resource["Type"] == "Custom::AWSCDK-EKS-KubernetesResource":
                yield from json.loads(_text(resource["Properties"]["Manifest"], self.regions[stack]))

    async def install(self, fleet: EnforcedFleet) -> None:
        await asyncio.to_thread(self._install, fleet)

    def _install(self, fleet: EnforcedFleet) -> None:
        prepare(fleet, self.assembly, {CONTROL: CONTROL_REGION, **self.regions})
        for stack, region in {CONTROL: CONTROL_REGION, **self.regions, MONITORING: CONTROL_REGION}.items():
            self.left_out[stack] = found = pruned(self.assembly.template(stack), UNKNOWN, without=_is_metric_math)
            deploy(fleet, stack, found.template, region)
            with fleet.client("cloudformation", region) as cloudformation:
                self.outputs[stack] = read(cloudformation, stack)
        with fleet.client("lambda") as functions:
            for function in FUNCTIONS:
                if function.reaches_clusters:
                    self._reach_clusters(functions, f"gpufleet-{function.name}", str(fleet.kubeconfig_of(function.role)))

    def _reach_clusters(self, functions: Any, name: str, kubeconfig: str) -> None:
        variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        del variables["GPUFLEET_EKS_CLUSTERS"]
        functions.update_function_configuration(
            FunctionName=name, Environment={"Variables": variables | {"GPUFLEET_KUBECONFIG": kubeconfig}}
        )

    def environment(self) -> dict[str, str]:
        """The settings of the workers, by the outputs of the control stack."""
        return environment(self.outputs[CONTROL])

    def pod_environment(self, fleet: EnforcedFleet, worker: str, region: str) -> Mapping[str, str]:
        """The settings that the region's stack applies as a ConfigMap, in which the control stack's outputs are found again."""
        assert worker in USERS
        (settings,) = (one["data"] for one in self.applied(f"gpufleet-{region}") if one["metadata"]["name"] == "gpufleet-settings")
        assert self.environment().items() <= settings.items()
        return dict(settings)

    def api_specs(self, fleet: EnforcedFleet) -> list[ChildSpec]:
        return []

    async def close(self) -> None:
        return None


def _is_metric_math(resource: Json) -> bool:
    """An alarm on a figure that CloudWatch reckons of others, which the emulator's doesn't take."""
    return resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]


def _text(value: Any, region: str) -> str:
    """A text with the account, the region and the partition put in."""
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        between, parts = value["Fn::Join"]
        return str(between).join(_text(part, region) for part in parts)
    known = {"AWS::AccountId": ACCOUNT, "AWS::Region": region, "AWS::Partition": "aws"}
    return known.get(value.get("Ref", ""), "<unknown>")
