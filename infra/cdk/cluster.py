"""The EKS cluster of a region: control plane, add-ons, and who may enter.

The API server is reached from inside of the network by the nodes, and from outside by the API's and the metrics worker's functions, which
are in the control region and in no network. From either side whoever calls needs credentials of IAM and an access entry; there are
entries for those two roles, the administrators of the settings, and the provider that applies manifests when the stack is deployed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import RemovalPolicy, Size, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.lambda_layer_kubectl_v36 import KubectlV36Layer
from constructs import Construct

from infra.cdk.nag import acknowledge, find
from infra.cdk.names import Naming
from infra.cdk.network import ClusterNetwork
from infra.cdk.settings import Region

GROUPS: Final = ("api", "metrics")
"""The workers outside of the cluster; a role of IAM enters it as the Kubernetes group `gpufleet:<worker>` (infra/kubernetes/base)."""
_IN_NETWORK: Final = "service-role/AWSLambdaVPCAccessExecutionRole"
SYSTEM_TAINT: Final = "CriticalAddonsOnly"
"""The taint of the nodes of what always runs, which add-ons of EKS know: jobs start nodes of their own."""
TOLERATED: Final[dict[str, str]] = {"key": SYSTEM_TAINT, "operator": "Exists"}


class FleetCluster(Construct):
    """A cluster without nodes yet: `infra.cdk.nodes` adds them."""

    def __init__(
        self, scope: Construct, construct_id: str, *, naming: Naming, region: Region, key: kms.IKey, network: ClusterNetwork
    ) -> None:
        super().__init__(scope, construct_id)
        installation = naming.installation
        name = naming.cluster(region.name)
        log_group = logs.CfnLogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/eks/{name}/cluster",
            retention_in_days=installation.log_retention_days,
            kms_key_id=key.key_arn,
        )
        log_group.apply_removal_policy(RemovalPolicy.DESTROY)
        self.deploying_log = self._log_of_deployments(naming, key)
        """What CDK's own functions write, which do something only when the stack is deployed."""
        applying = iam.Role(
            self,
            "Applying",
            description=f"{name}: applies manifests and charts when the stack is deployed",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_IN_NETWORK)],
            inline_policies={
                "cluster": iam.PolicyDocument(
                    statements=[iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[naming.cluster_arn(region.name)])]
                )
            },
        )
        self.cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=name,
            version=eks.KubernetesVersion.of(installation.kubernetes_version),
            vpc=network.vpc,
            vpc_subnets=[{"subnets": network.vpc.private_subnets}],
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            endpoint_access=eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*region.api_server_cidrs)
            if region.api_server_cidrs != ("0.0.0.0/0",)
            else eks.EndpointAccess.PUBLIC_AND_PRIVATE,
            cluster_logging=list(eks.ClusterLoggingTypes),
            secrets_encryption_key=key,
            bootstrap_cluster_creator_admin_permissions=False,
            bootstrap_self_managed_addons=False,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=KubectlV36Layer(self, "Kubectl"),
                memory=Size.gibibytes(1),
                private_subnets=network.vpc.private_subnets,
                # Else CDK lets it read registries of images too.
                role=applying.without_policy_updates(),
            ),
        )
        self._log_what_applies()
        # What that right would have hung on, which nothing hangs on now.
        self.node.try_remove_child("HasEcrPublic")
        resource = self.cluster.node.default_child
        resource.add_property_override("DeletionProtection", installation.removal == "retain")
        resource.node.add_dependency(log_group)
        self._acknowledge(applying)
        self._entries(naming)
        self.before_nodes = [self._addon("vpc-cni", {"enableNetworkPolicy": "true"}), self._addon("kube-proxy"), self.pod_identity()]

    def pod_identity(self) -> eks.Addon:
        """The agent by which pods get the credentials of their roles."""
        return self._addon("eks-pod-identity-agent")

    def add_later(self) -> list[eks.Addon]:
        """The add-ons that need nodes: names, and what the API tells of usage."""
        return [self._addon("coredns"), self._addon("metrics-server", {"tolerations": [TOLERATED], "replicas": 1})]

    def _log_of_deployments(self, naming: Naming, key: kms.IKey) -> logs.LogGroup:
        name = f"/aws/lambda/{naming.installation.name}-deploying"
        group = logs.LogGroup(self, "Deploying", log_group_name=name, encryption_key=key, removal_policy=RemovalPolicy.DESTROY)
        group.node.default_child.add_property_override("RetentionInDays", naming.installation.log_retention_days)
        return group

    def _addon(self, name: str, configuration: Mapping[str, Any] | None = None) -> eks.Addon:
        return eks.Addon(self, f"Addon-{name}", cluster=self.cluster, addon_name=name, configuration_values=configuration)

    def _log_what_applies(self) -> None:
        """CDK gives the functions that apply manifests no log group, and Lambda's own keeps all for ever, without the fleet's key."""
        provider = find(self.cluster, "KubectlProvider")
        for path in ("Handler", "Provider/framework-onEvent"):
            function = find(provider, path).node.default_child
            function.add_property_override("LoggingConfig.LogGroup", self.deploying_log.log_group_name)

    def _acknowledge(self, applying: iam.Role) -> None:
        """What is CDK's and EKS's own making."""
        acknowledge(applying, "AwsSolutions-IAM4", "a function in a network: its log, its network interfaces", _policy(_IN_NETWORK))
        acknowledge(find(self.cluster, "Role"), "AwsSolutions-IAM4", "EKS asks for this policy of AWS", _policy("AmazonEKSClusterPolicy"))
        provider = find(self.cluster, "KubectlProvider")
        acknowledge(find(provider, "Handler"), "AwsSolutions-L1", "CDK's own function, at the runtime that it is tested with")
        role = find(provider, "Provider/framework-onEvent/ServiceRole")
        acknowledge(
            role,
            "AwsSolutions-IAM4",
            "CDK's own function in the network, which does nothing but call the one that applies",
            _policy("service-role/AWSLambdaBasicExecutionRole"),
            _policy(_IN_NETWORK),
        )
        handler = Stack.of(self).get_logical_id(find(provider, "Handler").node.default_child)
        acknowledge(role, "AwsSolutions-IAM5", "any version of the one function that applies", f"Resource::<{handler}.Arn>:*")

    def _entries(self, naming: Naming) -> None:
        for worker in GROUPS:
            eks.CfnAccessEntry(
                self,
                f"Entry-{worker}",
                cluster_name=self.cluster.cluster_name,
                principal_arn=naming.role_arn(worker),
                kubernetes_groups=[f"gpufleet:{worker}"],
                type="STANDARD",
            )
        for number, arn in enumerate(naming.installation.administrators):
            self.cluster.grant_cluster_admin(f"Administrator{number}", arn)

    def role_of_pods(self, account: str, *, namespace: str, role_arn: str) -> eks.CfnPodIdentityAssociation:
        """Give the pods of a service account the rights of a role: those that start after it, so they must wait for it."""
        return eks.CfnPodIdentityAssociation(
            self,
            f"Pods-{account}",
            cluster_name=self.cluster.cluster_name,
            namespace=namespace,
            service_account=account,
            role_arn=role_arn,
        )


def _policy(name: str) -> str:
    return f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}"
