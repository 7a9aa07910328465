"""The nodes of a cluster: a few that always run, and pools that start from nothing when a job wants them.

Managed node groups and the cluster autoscaler, and neither EKS Auto Mode nor Karpenter: Auto Mode takes an eighth of a node's price on top,
of GPU nodes too, and brings a device plugin of its own; Karpenter is a controller with rights to start any instance. The autoscaler is one
small pod which may only change the size of these groups. It learns what a node of an empty group would be from EKS.
"""

from __future__ import annotations

from typing import Final

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.cluster import SYSTEM_TAINT, FleetCluster
from infra.cdk.fields import architecture
from infra.cdk.nag import acknowledge
from infra.cdk.names import Naming
from infra.cdk.pool_limits import UNSET, PoolLimits
from infra.cdk.settings import Pool, Region
from shared.clusters.names import KARPENTER_CAPACITY

POOL_LABEL: Final = "gpufleet.io/pool"
SYSTEM: Final = "system"
GPU_PRESENT: Final = "nvidia.com/gpu.present"
"""The label by which NVIDIA's charts know nodes with GPUs where nothing else discovers them."""
GPU_TAINT: Final = ("nvidia.com/gpu", "true")
_STANDARD: Final = {"arm64": "AL2023_ARM_64_STANDARD", "x86_64": "AL2023_x86_64_STANDARD"}
_NVIDIA: Final = {"arm64": "AL2023_ARM_64_NVIDIA", "x86_64": "AL2023_x86_64_NVIDIA"}
_POLICIES: Final = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy")


class FleetNodes(Construct):
    """The node groups of a cluster."""

    def __init__(self, scope: Construct, construct_id: str, *, cluster: FleetCluster, naming: Naming, region: Region) -> None:
        super().__init__(scope, construct_id)
        system = region.system
        self._installation = naming.installation.name
        self._version = naming.installation.kubernetes_version
        self._cluster = cluster
        self._role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in _POLICIES],
        )
        acknowledge(
            self._role,
            "AwsSolutions-IAM4",
            "EKS asks for these policies of AWS for its nodes; pods don't reach the role, since a node's metadata answers one hop only",
            *(f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}" for name in _POLICIES),
        )
        self.system = self._group(
            SYSTEM,
            instance_types=system.instance_types,
            ami=_STANDARD[system.architecture],
            sizes=(system.min_nodes, system.max_nodes),
            disk_gib=30,
            taints=[eks.TaintSpec(effect=eks.TaintEffect.NO_SCHEDULE, key=SYSTEM_TAINT, value="true")],
        )
        limits = PoolLimits(self, "Limits", cluster=cluster, naming=naming, region=region.name)
        for pool in region.pools:
            limits.set(pool.name, self._pool(pool), pool.max_nodes)

    def _pool(self, pool: Pool) -> eks.Nodegroup:
        return self._group(
            pool.name,
            instance_types=pool.instance_types,
            ami=_ami(pool),
            # Whatever the settings say: `infra.cdk.pool_limits` tells why.
            sizes=(0, UNSET),
            disk_gib=pool.disk_gib,
            spot=pool.capacity == "spot",
            labels=pool_labels(pool) | ({GPU_PRESENT: "true"} if pool.gpus else {}),
            taints=[eks.TaintSpec(effect=eks.TaintEffect.NO_SCHEDULE, key=GPU_TAINT[0], value=GPU_TAINT[1])] if pool.gpus else [],
        )

    def _group(
        self,
        name: str,
        *,
        instance_types: tuple[str, ...],
        ami: str,
        sizes: tuple[int, int],
        disk_gib: int,
        taints: list[eks.TaintSpec],
        spot: bool = False,
        labels: dict[str, str] | None = None,
    ) -> eks.Nodegroup:
        template = ec2.CfnLaunchTemplate(
            self,
            f"Template-{name}",
            launch_template_data=ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
                tag_specifications=[self._tagged("instance", name), self._tagged("volume", name)],
                # One hop: pods don't reach the node's role. Those with a role of their own have Pod Identity.
                metadata_options=ec2.CfnLaunchTemplate.MetadataOptionsProperty(http_tokens="required", http_put_response_hop_limit=1),
                block_device_mappings=[
                    ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
                        device_name="/dev/xvda",
                        ebs=ec2.CfnLaunchTemplate.EbsProperty(volume_size=disk_gib, volume_type="gp3", encrypted=True),
                    )
                ],
            ),
        )
        group = eks.Nodegroup(
            self,
            f"Group-{name}",
            cluster=self._cluster.cluster,
            # No name: a group that must be replaced is made anew beside the old one.
            node_role=self._role,
            capacity_type=eks.CapacityType.SPOT if spot else eks.CapacityType.ON_DEMAND,
            min_size=sizes[0],
            desired_size=sizes[0],
            max_size=sizes[1],
            launch_template_spec=eks.LaunchTemplateSpec(id=template.ref, version=template.attr_latest_version_number),
            labels={POOL_LABEL: name} | (labels or {}),
            taints=taints,
            enable_node_auto_repair=True,
        )
        # Not by CDK's own arguments: it holds types against a list of families that is older than today's GPUs.
        resource = group.node.default_child
        resource.add_property_override("AmiType", ami)
        resource.add_property_override("InstanceTypes", list(instance_types))
        # Else nodes, and those that a pool starts later, stay with the version that the cluster had when their group was made.
        resource.add_property_override("Version", self._version)
        group.node.add_dependency(*self._cluster.before_nodes)
        return group

    def _tagged(self, kind: str, name: str) -> ec2.CfnLaunchTemplate.TagSpecificationProperty:
        """By which a bill tells machines and disks apart; what tags a stack doesn't reach them."""
        told = {"Name": f"{self._installation}-{name}", "gpufleet:installation": self._installation, "gpufleet:pool": name}
        tags = [CfnTag(key=key, value=value) for key, value in told.items()]
        return ec2.CfnLaunchTemplate.TagSpecificationProperty(resource_type=kind, tags=tags)


def pool_labels(pool: Pool) -> dict[str, str]:
    """What nodes of a pool are chosen by, besides what EKS labels them with: how their machines are paid for, in Karpenter's words.

    A job that wants spot machines says so of either label (`shared.clusters.placement`), and Kueue looks only at labels that a flavor has.
    """
    return {POOL_LABEL: pool.name, KARPENTER_CAPACITY: pool.capacity}


def _ami(pool: Pool) -> str:
    """Amazon Linux, with NVIDIA's driver where there are GPUs."""
    return (_NVIDIA if pool.gpus else _STANDARD)[architecture(pool.instance_types[0])]
