"""A region: its network, its cluster, and the workers on it.

Its queue and the rights of its workers are in the control stack (`infra.cdk.control_stack` says why); it finds them by name, so no stack of
another region is changed by what is done here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from infra.cdk.charts import FleetCharts
from infra.cdk.cluster import FleetCluster
from infra.cdk.key import FleetKey
from infra.cdk.manifests import digest_of, worker_objects
from infra.cdk.names import Naming
from infra.cdk.network import ClusterNetwork
from infra.cdk.nodes import FleetNodes
from infra.cdk.quotas import QUEUE, quota_objects
from infra.cdk.settings import Installation, Region
from infra.pods import NAMESPACE
from infra.roles import ROLES

ROOT: Final = Path(__file__).parents[2]
_PLATFORMS: Final = {"arm64": ecr_assets.Platform.LINUX_ARM64, "x86_64": ecr_assets.Platform.LINUX_AMD64}


class RegionStack(Stack):
    """One region of an installation."""

    def __init__(self, scope: Construct, construct_id: str, *, installation: Installation, region: Region, **options: Any) -> None:
        super().__init__(scope, construct_id, **options)
        self.installation = installation
        self.fleet_region = region
        naming = Naming(installation)
        removal = RemovalPolicy.RETAIN if installation.removal == "retain" else RemovalPolicy.DESTROY
        key = FleetKey(self, "Key", name=f"{installation.name}-cluster", region=region.name, services=["eks"], removal=removal)
        network = ClusterNetwork(self, "Network", installation=installation, region=region, key=key)
        self.cluster = FleetCluster(self, "Cluster", naming=naming, region=region, key=key, network=network)
        self.nodes = FleetNodes(self, "Nodes", cluster=self.cluster, naming=naming, region=region)
        for addon in self.cluster.add_later():
            addon.node.add_dependency(self.nodes.system)
        known = [
            self.cluster.role_of_pods(role.worker, namespace=NAMESPACE, role_arn=naming.role_arn(role.worker, region.name))
            for role in ROLES
            if role.pod
        ]
        charts = FleetCharts(self, "Charts", naming=naming, region=region.name, cluster=self.cluster)
        charts.node.add_dependency(self.nodes.system)
        workers = self._workers(naming)
        workers.node.add_dependency(self.nodes.system, *known)
        if charts.kueue is not None:
            quotas = eks.KubernetesManifest(
                self, "Quotas", cluster=self.cluster.cluster, manifest=quota_objects(installation, region), prune=True
            )
            quotas.node.add_dependency(charts.kueue, workers)
        CfnOutput(self, "ClusterName", value=self.cluster.cluster.cluster_name)
        CfnOutput(self, "ClusterEndpoint", value=self.cluster.cluster.cluster_endpoint)
        CfnOutput(
            self,
            "Kubeconfig",
            value=f"aws eks update-kubeconfig --region {region.name} --name {naming.cluster(region.name)} --alias {region.name}",
            description="For administrators of the settings",
        )

    def _settings(self, naming: Naming) -> dict[str, str]:
        """What the pods of the workers have in their environment."""
        settings = naming.environment() | {
            # Credentials come from Pod Identity; the region is that of the table and the queues, wherever the cluster is.
            "AWS_REGION": self.installation.control_region,
            "GPUFLEET_CLUSTER_REGION": self.fleet_region.name,
        }
        if self.installation.charts.kueue is not None:
            settings["GPUFLEET_KUEUE_QUEUE"] = QUEUE
        return settings

    def _workers(self, naming: Naming) -> eks.KubernetesManifest:
        installation = self.installation
        return eks.KubernetesManifest(
            self,
            "Workers",
            cluster=self.cluster.cluster,
            prune=True,
            manifest=worker_objects(
                image=self._image(),
                settings=self._settings(naming),
                # Without tokens of CDK, which are numbered anew when a stack has another resource.
                digest=digest_of(self._settings(replace(naming, account="", partition=""))),
                namespaces=installation.job_namespaces,
                replicas={"dispatcher": installation.workers.dispatchers},
                shutdown_seconds=installation.shutdown_seconds,
            ),
        )

    def _image(self) -> str:
        if self.installation.workers.image is not None:
            return self.installation.workers.image
        platform = _PLATFORMS[self.fleet_region.system.architecture]
        asset = ecr_assets.DockerImageAsset(self, "Image", directory=str(ROOT), platform=platform, asset_name=self.installation.name)
        return str(asset.image_uri)
