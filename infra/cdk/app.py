"""The app: one control stack, a stack for each region, one for the monitoring."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from aws_cdk import App, Environment, Tags

from infra.cdk.control_stack import ControlStack
from infra.cdk.monitoring_stack import MonitoringStack
from infra.cdk.nag import check
from infra.cdk.names import tags
from infra.cdk.packages import BUILT
from infra.cdk.region_stack import RegionStack
from infra.cdk.settings import Installation

_CONTEXT: Final[dict[str, Any]] = {
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True,
    "@aws-cdk/core:enablePartitionLiterals": True,
    "@aws-cdk/core:checkSecretUsage": True,
    "@aws-cdk/aws-iam:minimizePolicies": False,
    "@aws-cdk/aws-iam:standardizedServicePrincipals": True,
    "@aws-cdk/core:target-partitions": ["aws"],
    # Exports: what another stack uses can't be taken away.
    "@aws-cdk/core:defaultCrossStackReferences": "strong",
}
"""How CDK is to behave, set here and not in a file beside, so that tests and `cdk` synthesize the same."""


def build(installation: Installation, *, packages: Path = BUILT, outdir: Path | None = None, checked: bool = True) -> App:
    """The app of an installation, not yet synthesized.

    `packages` is the folder of the functions' packages; `checked`: cdk-nag's findings are told when it is synthesized.
    """
    app = App(
        outdir=str(outdir) if outdir is not None else None,
        context=_CONTEXT,
        analytics_reporting=False,
        tree_metadata=False,
    )
    name = installation.name
    retained = installation.removal == "retain"
    control = ControlStack(
        app,
        f"{name}-control",
        stack_name=f"{name}-control",
        description=f"{name}: table, bucket, queues, functions and API",
        installation=installation,
        packages=packages,
        env=Environment(region=installation.control_region),
        termination_protection=retained,
    )
    for region in installation.regions:
        stack = RegionStack(
            app,
            f"{name}-{region.name}",
            stack_name=f"{name}-{region.name}",
            description=f"{name}: the cluster of {region.name} and its workers",
            installation=installation,
            region=region,
            env=Environment(region=region.name),
            termination_protection=retained,
        )
        # Roles are found by name, so nothing but this tells that they must be there before.
        stack.add_stack_dependency(control)
    MonitoringStack(
        app,
        f"{name}-monitoring",
        stack_name=f"{name}-monitoring",
        description=f"{name}: alarms and dashboards",
        installation=installation,
        control=control,
        env=Environment(region=installation.control_region),
    )
    for key, value in tags(installation).items():
        Tags.of(app).add(key, value)
    if checked:
        check(app)
    return app
