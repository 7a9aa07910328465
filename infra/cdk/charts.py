"""What runs on a cluster beside the fleet, as Helm charts: Kueue, NVIDIA's device plugin and exporter, the autoscaler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.cluster import TOLERATED, FleetCluster
from infra.cdk.nag import acknowledge
from infra.cdk.names import Naming
from infra.cdk.nodes import GPU_PRESENT, GPU_TAINT, POOL_LABEL, SYSTEM
from infra.cdk.rights import pods
from infra.cdk.settings import Chart

_TIMEOUT: Final = Duration.minutes(10)
_ON_SYSTEM: Final[dict[str, Any]] = {"nodeSelector": {POOL_LABEL: SYSTEM}, "tolerations": [TOLERATED]}
_ON_GPUS: Final[dict[str, Any]] = {
    "nodeSelector": {GPU_PRESENT: "true"},
    "tolerations": [{"key": GPU_TAINT[0], "operator": "Exists", "effect": "NoSchedule"}],
}
_AUTOSCALER: Final = "cluster-autoscaler"
_AUTOSCALER_NAMESPACE: Final = "kube-system"


class FleetCharts(Construct):
    """The charts that the settings name."""

    def __init__(self, scope: Construct, construct_id: str, *, naming: Naming, region: str, cluster: FleetCluster) -> None:
        super().__init__(scope, construct_id)
        self._cluster = cluster
        charts = naming.installation.charts
        # It must answer before its queues are made: the API server asks it whether they are right.
        self.kueue = self._chart("kueue", charts.kueue, "kueue-system", {"controllerManager": {"replicas": 1, **_ON_SYSTEM}}, wait=True)
        self._chart("nvidia-device-plugin", charts.device_plugin, "kube-system", {"gfd": {"enabled": False}, **_ON_GPUS})
        # Without a Prometheus operator nobody would read a ServiceMonitor: the metrics worker finds the pods by their label.
        self._chart("dcgm-exporter", charts.dcgm_exporter, "dcgm-exporter", {"serviceMonitor": {"enabled": False}, **_ON_GPUS})
        autoscaler = self._chart(
            _AUTOSCALER,
            charts.autoscaler,
            _AUTOSCALER_NAMESPACE,
            {
                "cloudProvider": "aws",
                "awsRegion": region,
                "autoDiscovery": {"clusterName": naming.cluster(region)},
                "rbac": {"serviceAccount": {"name": _AUTOSCALER}},
                # What runs to an end is never moved for a node's sake: its pods say so themselves (`shared.clusters.defaults`).
                "extraArgs": {"expander": "least-waste", "skip-nodes-with-system-pods": False, "scale-down-unneeded-time": "10m"},
                **_ON_SYSTEM,
            },
        )
        if autoscaler is not None:
            autoscaler.node.add_dependency(self._autoscaler_role(naming, region))

    def _chart(
        self, name: str, chart: Chart | None, namespace: str, values: Mapping[str, Any], *, wait: bool = False
    ) -> eks.HelmChart | None:
        if chart is None:
            return None
        return eks.HelmChart(
            self,
            name,
            cluster=self._cluster.cluster,
            release=name,
            repository=chart.repository,
            # Of an oci address the provider takes the last part, and this no more than as a name.
            chart=chart.chart or chart.repository.rpartition("/")[2],
            version=chart.version,
            namespace=namespace,
            create_namespace=namespace != "kube-system",
            timeout=_TIMEOUT,
            wait=wait,
            values=values,
        )

    def _autoscaler_role(self, naming: Naming, region: str) -> eks.CfnPodIdentityAssociation:
        owned = {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{naming.cluster(region)}": "owned"}
        policy = iam.PolicyDocument(
            statements=[
                iam.PolicyStatement(
                    actions=[
                        "autoscaling:DescribeAutoScalingGroups",
                        "autoscaling:DescribeAutoScalingInstances",
                        "autoscaling:DescribeLaunchConfigurations",
                        "autoscaling:DescribeScalingActivities",
                        "autoscaling:DescribeTags",
                        "ec2:DescribeImages",
                        "ec2:DescribeInstanceTypes",
                        "ec2:DescribeLaunchTemplateVersions",
                        "ec2:GetInstanceTypesFromInstanceRequirements",
                        "eks:DescribeNodegroup",
                    ],
                    resources=["*"],
                ),
                iam.PolicyStatement(
                    actions=["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
                    resources=["*"],
                    conditions={"StringEquals": owned},
                ),
            ]
        )
        role = iam.Role(
            self,
            "AutoscalerRole",
            role_name=naming.role("autoscaler", region),
            assumed_by=pods(naming, namespace=_AUTOSCALER_NAMESPACE, account=_AUTOSCALER, region=region),
            inline_policies={"autoscaler": policy},
        )
        acknowledge(
            role,
            "AwsSolutions-IAM5",
            "what is described knows no resource; sizes are changed only of groups that carry this cluster's tag",
            "Resource::*",
        )
        return self._cluster.role_of_pods(_AUTOSCALER, namespace=_AUTOSCALER_NAMESPACE, role_arn=role.role_arn)
