"""A region's stack: its cluster, its nodes, who enters, and what is applied to it."""

from __future__ import annotations

import json
from ipaddress import ip_network

import pytest

from infra.cdk.settings import Installation
from infra.roles import ROLES
from tests.infra.manifests import manifests
from tests.infra.stacks.assembly import ACCOUNT
from tests.infra.stacks.installations import IMAGE, document

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]


@pytest.fixture
def region(two):
    return two.template("us-east-1")


def applied(template, kind=None):
    """The objects that are applied to a cluster."""
    found = []
    for one in template.of("Custom::AWSCDK-EKS-KubernetesResource").values():
        found += json.loads(template.resolve(one["Manifest"]))
    return [one for one in found if kind is None or one["kind"] == kind]


def charts(template):
    return template.named("Custom::AWSCDK-EKS-HelmChart", "Release")


def test_the_cluster_logs_encrypts_and_is_entered_by_access_entries_only(region):
    cluster = region.one("AWS::EKS::Cluster")

    assert (cluster["Name"], cluster["Version"]) == ("gpufleet", "1.36")
    assert cluster["AccessConfig"] == {"AuthenticationMode": "API", "BootstrapClusterCreatorAdminPermissions": False}
    assert {one["Type"] for one in cluster["Logging"]["ClusterLogging"]["EnabledTypes"]} == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }
    assert cluster["EncryptionConfig"][0]["Resources"] == ["secrets"]
    assert cluster["DeletionProtection"] is True
    assert (cluster["ResourcesVpcConfig"]["EndpointPrivateAccess"], cluster["ResourcesVpcConfig"]["EndpointPublicAccess"]) == (True, True)


def test_the_api_and_the_metrics_worker_enter_as_the_groups_that_rbac_knows(region):
    entries = [region.resolve(one) for one in region.of("AWS::EKS::AccessEntry").values()]
    groups = {one["PrincipalArn"]: one["KubernetesGroups"] for one in entries if "KubernetesGroups" in one}

    assert groups == {
        f"arn:aws:iam::{ACCOUNT}:role/gpufleet-api": ["gpufleet:api"],
        f"arn:aws:iam::{ACCOUNT}:role/gpufleet-metrics": ["gpufleet:metrics"],
    }
    subjects = [subject for one in applied(region) if "Binding" in one["kind"] for subject in one["subjects"]]
    bound = {one["name"] for one in subjects if one["kind"] == "Group"}
    assert bound == {"gpufleet:api", "gpufleet:metrics"}
    # Whoever applies what is here is the only administrator unless the settings name one.
    assert len([one for one in entries if one.get("AccessPolicies")]) == 1


def test_administrators_are_those_of_the_settings(five):
    entries = [five.template("us-east-1").resolve(one) for one in five.template("us-east-1").of("AWS::EKS::AccessEntry").values()]
    named = [one for one in entries if one["PrincipalArn"] == "arn:aws:iam::123456789012:role/admin"]
    assert [one["AccessPolicies"][0]["PolicyArn"].rpartition("/")[2] for one in named] == ["AmazonEKSClusterAdminPolicy"]


def test_pods_have_the_roles_that_the_control_stack_has_made(two, region):
    associations = {
        (one["Namespace"], one["ServiceAccount"]): region.resolve(one["RoleArn"])
        for one in region.of("AWS::EKS::PodIdentityAssociation").values()
    }
    for role in ROLES:
        if role.pod:
            name = associations[("gpufleet", role.worker)].rpartition("/")[2]
            assert name in two.control.named("AWS::IAM::Role", "RoleName")
    accounts = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in applied(region, "ServiceAccount")}
    assert set(associations) == accounts | {("kube-system", "cluster-autoscaler")}


def test_pods_start_when_their_role_is_known_and_queues_are_made_when_kueue_answers(region):
    kinds = {name: one["Type"] for name, one in region.resources.items()}
    manifests = {
        json.loads(region.resolve(one["Properties"]["Manifest"]))[0]["kind"]: one["DependsOn"]
        for one in region.resources.values()
        if one["Type"] == "Custom::AWSCDK-EKS-KubernetesResource"
    }
    associations = [name for name, one in region.of("AWS::EKS::PodIdentityAssociation").items() if one["Namespace"] == "gpufleet"]
    assert len(associations) == 2
    assert set(associations) < set(manifests["Namespace"])
    releases = {one["Properties"]["Release"]: (name, one) for name, one in region.resources.items() if kinds[name].endswith("HelmChart")}
    kueue, properties = releases["kueue"][0], releases["kueue"][1]["Properties"]
    assert properties["Wait"] is True
    assert kueue in manifests["ResourceFlavor"]
    (autoscaler,) = set(region.of("AWS::EKS::PodIdentityAssociation")) - set(associations)
    assert autoscaler in releases["cluster-autoscaler"][1]["DependsOn"]


def test_pools_of_gpus_start_from_nothing_and_are_tainted(two, region):
    groups = {one["Labels"]["gpufleet.io/pool"]: one for one in region.of("AWS::EKS::Nodegroup").values()}

    pools = two.installation.regions[0].pools
    assert set(groups) == {"system", *(pool.name for pool in pools)}
    for pool in pools:
        found = groups[pool.name]
        assert tuple(found["InstanceTypes"]) == pool.instance_types
        assert found["CapacityType"] == ("SPOT" if pool.capacity == "spot" else "ON_DEMAND")
        assert found["Labels"]["karpenter.sh/capacity-type"] == pool.capacity
        assert found["AmiType"] == ("AL2023_x86_64_NVIDIA" if pool.gpus else "AL2023_x86_64_STANDARD")
        taints = [{"Effect": "NO_SCHEDULE", "Key": "nvidia.com/gpu", "Value": "true"}] if pool.gpus else []
        assert found.get("Taints", []) == taints
    assert groups["system"]["Taints"] == [{"Effect": "NO_SCHEDULE", "Key": "CriticalAddonsOnly", "Value": "true"}]
    assert groups["system"]["ScalingConfig"]["MinSize"] == 2
    # When the cluster has another version, its nodes follow.
    assert {one["Version"] for one in groups.values()} == {region.one("AWS::EKS::Cluster")["Version"]}


def limits(region):
    """What EKS is told of its groups when the stack is deployed, as JSON, by the group's logical id."""
    calls = [json.loads(region.resolve(one["Update"])) for one in region.of("Custom::AWS").values()]
    assert {(one["service"], one["action"]) for one in calls} == {("EKS", "updateNodegroupConfig")}
    return {one["parameters"]["nodegroupName"].removesuffix(".NodegroupName"): one["parameters"] for one in calls}


def test_another_size_of_a_pool_leaves_its_nodes_alone(assemblies, region):
    larger = document(2)
    for pool in larger["regions"][0]["pools"]:
        pool["max_nodes"] = 20
    after = assemblies.make("larger", Installation.of(larger)).template("us-east-1")

    # A group of which a size changes is told all sizes, and with them to have no nodes.
    assert after.of("AWS::EKS::Nodegroup") == region.of("AWS::EKS::Nodegroup")
    pools = {name: one for name, one in region.of("AWS::EKS::Nodegroup").items() if one["Labels"]["gpufleet.io/pool"] != "system"}
    assert {tuple(one["ScalingConfig"].items()) for one in pools.values()} == {(("DesiredSize", 0), ("MaxSize", 1), ("MinSize", 0))}
    for most, found in ((8, limits(region)), (20, limits(after))):
        assert set(found) == set(pools)
        assert [one["scalingConfig"] for one in found.values()] == [{"maxSize": most}] * len(pools)
        assert {one["clusterName"] for one in found.values()} == set(region.of("AWS::EKS::Cluster"))


@pytest.mark.parametrize(
    ("types", "ami"),
    [
        (["p3.2xlarge", "p4d.24xlarge", "p4de.24xlarge", "p5.4xlarge", "p5.48xlarge"], "AL2023_x86_64_NVIDIA"),
        (["p5e.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge"], "AL2023_x86_64_NVIDIA"),
        (["g4dn.xlarge", "g5.xlarge", "g6.xlarge", "g6e.xlarge", "g6f.large", "gr6.4xlarge", "g7e.2xlarge"], "AL2023_x86_64_NVIDIA"),
        (["g5g.xlarge", "p6e-gb200.36xlarge"], "AL2023_ARM_64_NVIDIA"),
    ],
    ids=["p3-p5", "p5e-p6", "g", "arm"],
)
def test_gpus_of_every_family_are_taken(assemblies, types, ami):
    found = document(1, charts={})
    found["regions"][0]["pools"][0]["instance_types"] = types
    found["regions"][0]["pools"][2]["instance_types"] = ["u7i-12tb.224xlarge"]
    made = assemblies.make(f"family-{types[0]}", Installation.of(found)).template("us-east-1")

    groups = {one["Labels"]["gpufleet.io/pool"]: one for one in made.of("AWS::EKS::Nodegroup").values()}
    assert (groups["gpu"]["InstanceTypes"], groups["gpu"]["AmiType"]) == (types, ami)
    assert (groups["cpu"]["InstanceTypes"], groups["cpu"]["AmiType"]) == (["u7i-12tb.224xlarge"], "AL2023_x86_64_STANDARD")


def test_nodes_encrypt_their_disks_and_keep_their_role_to_themselves(region):
    templates = [one["LaunchTemplateData"] for one in region.of("AWS::EC2::LaunchTemplate").values()]

    assert len(templates) == len(region.of("AWS::EKS::Nodegroup"))
    for one in templates:
        assert one["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
        assert [device["Ebs"]["Encrypted"] for device in one["BlockDeviceMappings"]] == [True]
        tagged = {each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]} for each in one["TagSpecifications"]}
        assert set(tagged) == {"instance", "volume"}
        assert {tags["gpufleet:installation"] for tags in tagged.values()} == {"gpufleet"}


def test_the_charts_of_the_settings_are_installed_where_they_belong(two, region):
    wanted = two.installation.charts
    found = charts(region)

    versions = {name: one["Version"] for name, one in found.items()}
    assert versions == {
        "kueue": wanted.kueue.version,
        "nvidia-device-plugin": wanted.device_plugin.version,
        "dcgm-exporter": wanted.dcgm_exporter.version,
        "cluster-autoscaler": wanted.autoscaler.version,
    }
    values = {name: json.loads(region.resolve(one["Values"])) for name, one in found.items()}
    on_gpus = {"nvidia.com/gpu.present": "true"}
    assert values["nvidia-device-plugin"]["nodeSelector"] == values["dcgm-exporter"]["nodeSelector"] == on_gpus
    assert values["dcgm-exporter"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert values["cluster-autoscaler"]["autoDiscovery"] == {"clusterName": "gpufleet"}
    assert values["kueue"]["controllerManager"]["tolerations"] == [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
    # Its label is one that the metrics worker looks for.
    assert any(f"app.kubernetes.io/name in ({'dcgm-exporter'}" in one for one in two.installation.settings(bucket="b").metrics_exporters)


def test_the_autoscaler_may_change_the_size_of_this_clusters_groups_only(region):
    (policy,) = region.named("AWS::IAM::Role", "RoleName")["gpufleet-autoscaler-us-east-1"]["Policies"]
    changing = [
        one for one in policy["PolicyDocument"]["Statement"] if any(action.split(":")[1][:8] != "Describe" for action in one["Action"])
    ]
    conditions = [one.get("Condition") for one in changing if "autoscaling:SetDesiredCapacity" in one["Action"]]
    assert conditions == [{"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/gpufleet": "owned"}}]


def test_the_workers_manifests_are_those_of_the_base(two, region):
    import yaml

    base = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(manifests()) if one}
    found = {(one["kind"], one["metadata"]["name"]) for one in applied(region) if not one["apiVersion"].startswith("kueue")}
    assert found == base


def test_the_workers_have_the_image_and_the_settings_of_the_installation(two, region):
    (settings,) = [one["data"] for one in applied(region, "ConfigMap")]
    assert settings == {
        "AWS_REGION": "us-east-1",
        "GPUFLEET_BUCKET": f"gpufleet-{ACCOUNT}-us-east-1",
        "GPUFLEET_CLUSTER_REGION": "us-east-1",
        "GPUFLEET_CONTROL_REGION": "us-east-1",
        "GPUFLEET_KUEUE_QUEUE": "gpufleet",
        "GPUFLEET_QUEUE_PREFIX": "gpufleet",
        "GPUFLEET_REGIONS": "us-east-1,eu-west-1",
        "GPUFLEET_SECRETS_PREFIX": "gpufleet",
        "GPUFLEET_TABLE": "gpufleet",
    }
    deployments = {one["metadata"]["name"]: one["spec"] for one in applied(region, "Deployment")}
    assert deployments["dispatcher"]["replicas"] == 3
    assert deployments["observer"]["replicas"] == 1
    for one in deployments.values():
        pod = one["template"]["spec"]
        assert {container["image"] for container in pod["containers"]} == {IMAGE}
        assert pod["nodeSelector"] == {"gpufleet.io/pool": "system"}
        assert {"key": "CriticalAddonsOnly", "operator": "Exists"} in pod["tolerations"]
        assert one["template"]["metadata"]["annotations"]["gpufleet.io/settings"]
    elsewhere = two.template("eu-west-1")
    (settings,) = [one["data"] for one in applied(elsewhere, "ConfigMap")]
    assert (settings["GPUFLEET_CLUSTER_REGION"], settings["AWS_REGION"]) == ("eu-west-1", "us-east-1")


def test_pods_are_given_as_long_as_the_workers_take_to_end(two, five):
    for assembly, seconds in ((two, 60), (five, 160)):
        for one in applied(assembly.template("us-east-1"), "Deployment"):
            assert one["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == seconds


def test_workers_start_anew_only_for_settings_that_they_see(assemblies, region):
    def deployments(name, **more):
        made = assemblies.make(name, Installation.of(document(2, **more))).template("us-east-1")
        return [one["spec"]["template"] for one in applied(made, "Deployment")]

    before = [one["spec"]["template"] for one in applied(region, "Deployment")]
    unseen = {"alarms": {"email": "oncall@example.com", "throttles": 99}, "log_retention_days": 60, "api": {"rate": 9}}
    assert deployments("unseen", **unseen) == before
    seen = deployments("seen", environment={"GPUFLEET_READY_SHARDS": "9"})
    assert all(one != other for one, other in zip(seen, before, strict=True))


def test_each_namespace_of_jobs_has_the_rights_of_the_workers_and_a_queue(five):
    found = applied(five.template("us-east-1"))

    names = {one["metadata"]["name"] for one in found if one["kind"] == "Namespace"}
    assert names == {"gpufleet", "gco-jobs", "research"}
    bindings = {}
    for one in found:
        if one["kind"] == "RoleBinding":
            bindings.setdefault(one["metadata"]["namespace"], set()).add(one["roleRef"]["name"])
    assert bindings["research"] == bindings["gco-jobs"]
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in found if one["kind"] == "Namespace"}
    assert labels["research"] == labels["gco-jobs"]
    assert {one["metadata"]["namespace"] for one in found if one["kind"] == "LocalQueue"} == {"gco-jobs", "research"}


def test_kueue_has_a_flavor_for_each_pool_with_what_its_nodes_are_labelled(two, region):
    flavors = {one["metadata"]["name"]: one["spec"] for one in applied(region, "ResourceFlavor")}
    (queue,) = applied(region, "ClusterQueue")
    (group,) = queue["spec"]["resourceGroups"]
    quotas = {one["name"]: {each["name"]: each["nominalQuota"] for each in one["resources"]} for one in group["flavors"]}

    nodes = {one["Labels"]["gpufleet.io/pool"]: one for one in region.of("AWS::EKS::Nodegroup").values()}
    for pool in two.installation.regions[0].pools:
        labels = flavors[pool.name]["nodeLabels"]
        labelled = nodes[pool.name]["Labels"] | {
            "eks.amazonaws.com/capacityType": nodes[pool.name]["CapacityType"],
            "node.kubernetes.io/instance-type": nodes[pool.name]["InstanceTypes"][0],
        }
        assert labels.items() <= labelled.items()
        taints = [(one["key"], one["value"]) for one in flavors[pool.name].get("nodeTaints", [])]
        assert taints == [(one["Key"], one["Value"]) for one in nodes[pool.name].get("Taints", [])]
        assert quotas[pool.name] == {
            "cpu": str(pool.cpus * pool.max_nodes),
            "memory": f"{pool.memory_gib * pool.max_nodes}Gi",
            "nvidia.com/gpu": str(pool.gpus * pool.max_nodes),
        }
        # What a job that wants spot machines asks for is among what the flavor tells (shared.clusters.placement).
        assert {"eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"} <= set(labels)


def test_without_kueue_jobs_are_released_by_the_fleet(assemblies):
    found = assemblies["bare"].template("us-east-1")

    assert charts(found) == {}
    assert not [one for one in applied(found) if one["apiVersion"].startswith("kueue")]
    (settings,) = [one["data"] for one in applied(found, "ConfigMap")]
    assert "GPUFLEET_KUEUE_QUEUE" not in settings
    assert "gpufleet-autoscaler-us-east-1" not in found.named("AWS::IAM::Role", "RoleName")


def test_the_api_server_can_be_closed_to_some_addresses(assemblies):
    from infra.cdk.settings import Installation
    from tests.infra.stacks.installations import document

    found = document(1)
    found["regions"][0]["api_server_cidrs"] = ["192.0.2.0/24"]
    made = assemblies.make("closed", Installation.of(found))
    assert made.template("us-east-1").one("AWS::EKS::Cluster")["ResourcesVpcConfig"]["PublicAccessCidrs"] == ["192.0.2.0/24"]


def test_without_an_image_one_is_built_when_the_stack_is_deployed_and_not_before(assemblies, monkeypatch):
    from infra.cdk.settings import Installation
    from tests.infra.stacks.installations import document

    found = document(1, workers={})
    monkeypatch.setenv("PATH", "/nowhere")  # no engine is asked
    made = assemblies.make("built", Installation.of(found))

    assets = json.loads((made.outdir / "gpufleet-us-east-1.assets.json").read_text())
    (image,) = assets["dockerImages"].values()
    assert image["source"]["platform"] == "linux/arm64"
    staged = made.outdir / image["source"]["directory"]
    assert (staged / "pyproject.toml").is_file()
    assert not (staged / "build").exists()
    images = {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in applied(made.template("us-east-1"), "Deployment")}
    (name,) = images
    assert name.startswith(f"{ACCOUNT}.dkr.ecr.us-east-1.")


@pytest.mark.parametrize(
    ("network", "subnet"), [("10.0.0.0/16", 4096), ("10.4.0.0/18", 4096), ("10.5.16.0/20", 1024)], ids=["16", "18", "20"]
)
def test_three_zones_have_subnets_and_gateways_of_their_own(assemblies, network, subnet):
    found = document(1, charts={})
    found["regions"][0] |= {"zones": 3, "nat_gateways": 3, "network": network}
    region = assemblies.make(f"zones-{subnet}-{network[3]}", Installation.of(found)).template("us-east-1")

    networks = [ip_network(one["CidrBlock"]) for one in region.of("AWS::EC2::Subnet").values()]
    zones = [one["AvailabilityZone"]["Fn::Select"][0] for one in region.of("AWS::EC2::Subnet").values()]
    assert zones == [0, 1, 2] * 2
    assert [one.num_addresses for one in networks] == [256] * 3 + [subnet] * 3
    assert all(one.subnet_of(ip_network(network)) for one in networks)
    assert len(region.of("AWS::EC2::NatGateway")) == 3
