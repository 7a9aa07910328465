"""The settings of an installation: what is wrong with them is told all at once, with its place and the rule."""

from __future__ import annotations

import json

import pytest

from infra.cdk.settings import Installation
from shared.errors import InvalidError
from tests.infra.stacks.installations import document

TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"
ELSEWHERE = "arn:aws:sns:eu-west-1:123456789012:on-call"
FAR = "arn:aws:dynamodb:eu-west-1:123456789012:table/gpufleet-2/stream/2026-11-30T09:00:00.123"


def jwt(issuer, *audience):
    return {"jwt": {"issuer": issuer, "audience": audience or ["gpufleet"]}}


def faults(found):
    with pytest.raises(InvalidError) as caught:
        Installation.of(found)
    return {problem.pointer: (problem.told, problem.rule) for problem in caught.value.problems}


def test_the_settings_that_the_project_comes_with_hold():
    found = Installation.load()

    assert found.control_region == "us-east-1"
    assert found.region_names == ("us-east-1", "eu-west-1")
    assert found.removal == "retain"
    assert all(chart is not None for chart in (found.charts.kueue, found.charts.device_plugin, found.charts.dcgm_exporter))


@pytest.mark.parametrize(
    ("change", "pointer", "told", "rule"),
    [
        ({"control_region": "mars"}, "/control_region", "mars", "must be a region of AWS with EKS"),
        ({"control_region": "us-east-9"}, "/control_region", "us-east-9", "must be a region of AWS with EKS"),
        ({"regions": []}, "/regions", None, "must have at least 1 item"),
        ({"name": "Fleet"}, "/name", "Fleet", "must be 3 to 20 small letters"),
        ({"name": "gf"}, "/name", "gf", "must be 3 to 20 small letters"),
        ({"name": "fleet-"}, "/name", "fleet-", "no hyphen last"),
        ({"removal": "keep"}, "/removal", "keep", "must be 'retain' or 'destroy'"),
        ({"log_retention_days": 31}, "/log_retention_days", 31, "must be 1, 3, 5, 7, 14"),
        ({"usage_days": 7}, "/usage_days", 7, "must be at least 39"),
        ({"job_log_days": 0}, "/job_log_days", 0, "must be at least 1"),
        ({"table": {"stream_arn": "gpufleet-2"}}, "/table/stream_arn", "gpufleet-2", "must be the ARN of a table's stream"),
        ({"table": {"stream_arn": FAR}}, "/table/stream_arn", FAR, "must be of a table in the control region, us-east-1"),
        ({"table": {"imported": True}}, "/table/stream_arn", None, "must be given"),
        ({"environment": {"GPUFLEET_SECRETS_PREFIX": "s"}}, "/environment/GPUFLEET_SECRETS_PREFIX", "s", "the stacks decide that"),
        ({"colour": "red"}, "/colour", "red", "must be left out: there is nothing of this name"),
        ({"api": {"rate": 0}}, "/api/rate", 0, "must be at least 1"),
        ({"api": {"jwt": {"issuer": "http://issuer.example"}}}, "/api/jwt/audience", None, "must be given"),
        ({"api": jwt("http://issuer.example")}, "/api/jwt/issuer", "http://issuer.example", "must be an address with https"),
        ({"api": jwt("https://a.example/?b")}, "/api/jwt/issuer", "https://a.example/?b", "without query and fragment"),
        ({"api": jwt("https://a.example/", "")}, "/api/jwt/audience/0", "", "must not be empty"),
        ({"workers": {"image": "GPUFleet"}}, "/workers/image", "GPUFleet", "must name an image in small letters"),
        (
            {"charts": {"kueue": {"repository": "https://a.b", "version": "1.2.3"}}},
            "/charts/kueue/chart",
            None,
            "must name the chart",
        ),
        ({"charts": {"kueue": {"repository": "oci://a/b", "version": "latest"}}}, "/charts/kueue/version", "latest", "three numbers"),
        (
            {"alarms": {"email": "a@b.example", "topic_arn": TOPIC}},
            "/alarms/email",
            "a@b.example",
            "must not be set together with topic_arn",
        ),
        ({"alarms": {"topic_arn": ELSEWHERE}}, "/alarms/topic_arn", ELSEWHERE, "must be a topic of the control region, us-east-1"),
        ({"environment": {"GPUFLEET_TABLE": "mine"}}, "/environment/GPUFLEET_TABLE", "mine", "must not be set: the stacks decide that"),
        ({"environment": {"GPUFLEET_IDENTITY": "keys"}}, "/environment/GPUFLEET_IDENTITY", "keys", "the stacks decide that"),
        ({"environment": {"GPUFLEET_PROBE_PORT": "1"}}, "/environment/GPUFLEET_PROBE_PORT", "1", "the stacks decide that"),
        ({"environment": {"GPUFLEET_POLICY_FILE": "p"}}, "/environment/GPUFLEET_POLICY_FILE", "p", "no pod has files of yours"),
        ({"environment": {"GPUFLEET_KUBECONFIG": "k"}}, "/environment/GPUFLEET_KUBECONFIG", "k", "no pod has files of yours"),
        ({"environment": {"GPUFLEET_WEBHOOK_LOCAL": "1"}}, "/environment/GPUFLEET_WEBHOOK_LOCAL", "1", "for a fleet on one machine"),
        ({"environment": {"GPUFLEET_REDY_SHARDS": "4"}}, "/environment/GPUFLEET_REDY_SHARDS", "4", "must be a setting of"),
        ({"environment": {"TABLE": "4"}}, "/environment/TABLE", "TABLE", "must be the name of a variable"),
        ({"environment": {"GPUFLEET_READY_SHARDS": "many"}}, "/environment/GPUFLEET_READY_SHARDS", "many", "must be a whole number"),
        *(
            (
                {"environment": {f"GPUFLEET_{name}_SHARDS": "4", f"GPUFLEET_{name}_SHARDS_READ": "3"}},
                f"/environment/GPUFLEET_{name}_SHARDS_READ",
                "3",
                f"must be at least 4, as many as are written (GPUFLEET_{name}_SHARDS)",
            )
            for name in ("READY", "DUE")
        ),
        ({"environment": {"GPUFLEET_RATE_LIMIT": "9"}}, "/environment/GPUFLEET_RATE_LIMIT", "9", "API Gateway throttles (api.rate"),
        ({"environment": {"GPUFLEET_METRICS_SECONDS": "600"}}, "/environment/GPUFLEET_METRICS_SECONDS", "600", "each minute"),
        ({"environment": {"GPUFLEET_LEASE_SECONDS": "inf"}}, "/environment/GPUFLEET_LEASE_SECONDS", "inf", "must be a finite number"),
        ({"environment": {"GPUFLEET_SWEEP_SECONDS": "5"}}, "/environment/GPUFLEET_SWEEP_SECONDS", "5", "each minute"),
        ({"environment": {"GPUFLEET_MAX_BODY_BYTES": "6291457"}}, "/environment/GPUFLEET_MAX_BODY_BYTES", "6291457", "than 6291456"),
        ({"environment": {"GPUFLEET_MAX_BODY_BYTES": "6 MB"}}, "/environment/GPUFLEET_MAX_BODY_BYTES", "6 MB", "must be a whole number"),
        ({"environment": {"GPUFLEET_LEASE_SECONDS": "0"}}, "/environment/GPUFLEET_LEASE_SECONDS", "0", "must be more than 0"),
        (
            {"environment": {"GPUFLEET_LEASE_SECONDS": "600"}, "alarms": {"claim_seconds": 599}},
            "/alarms/claim_seconds",
            599,
            "must not be less than a claim may last, 600",
        ),
        ({"metrics": {"rollups": ["region+node"]}}, "/metrics/rollups", "region+node", "must have region among them"),
        (
            {"environment": {"GPUFLEET_METRICS_ROLLUPS": "region+node,region+job_id"}},
            "/environment/GPUFLEET_METRICS_ROLLUPS",
            "region+node,region+job_id",
            "must have region among them",
        ),
        ({"environment": {"GPUFLEET_METRICS_ROLLUPS": "a"}}, "/environment/GPUFLEET_METRICS_ROLLUPS", "a", "must be labels joined by +"),
        ({"metrics": {"rollups": ["region", "planet"]}}, "/metrics/rollups/1", "planet", "must be labels joined by +: region, and"),
        ({"metrics": {"measures": ["gpu_mood"]}}, "/metrics/measures", "gpu_mood", "must be some of gpu_utilization"),
        ({"metrics": {"prometheus_url": "here"}}, "/metrics/prometheus_url", "here", "must be an address that begins with http"),
        (
            {"metrics": {"rollups": ["region"]}, "environment": {"GPUFLEET_METRICS_ROLLUPS": "region"}},
            "/environment/GPUFLEET_METRICS_ROLLUPS",
            "region",
            "must not be set together with /metrics/rollups",
        ),
        ({"kubernetes_version": "latest"}, "/kubernetes_version", "latest", "must be a version of Kubernetes from 1.31 on"),
        ({"kubernetes_version": "1.30"}, "/kubernetes_version", "1.30", "must be a version of Kubernetes from 1.31 on"),
        ({"administrators": ["admin"]}, "/administrators/0", "admin", "must be the ARN of a role or a user"),
        ({"job_namespaces": []}, "/job_namespaces", None, "must have at least 1 item"),
        ({"job_namespaces": ["a", "b", "a"]}, "/job_namespaces/2", "a", "must not come more than once"),
        *(
            ({"job_namespaces": ["jobs", name]}, "/job_namespaces/1", name, "jobs have namespaces of their own")
            for name in ("kube-system", "kube-public", "default", "gpufleet", "kueue-system", "dcgm-exporter")
        ),
        ({"bucket": "a..b"}, "/bucket", "a..b", "must be a name that S3 takes: without two dots in a row"),
        ({"bucket": "10.0.0.1"}, "/bucket", "10.0.0.1", "not the form of an IP address"),
        ({"bucket": "xn--jobs"}, "/bucket", "xn--jobs", "not beginning with xn--"),
        ({"bucket": "jobs-s3alias"}, "/bucket", "jobs-s3alias", "not ending with -s3alias"),
        ({"bucket": "Jobs"}, "/bucket", "Jobs", "3 to 63 small letters"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "-",
)
def test_what_is_wrong_is_told_with_its_place_and_the_rule(change, pointer, told, rule):
    found = faults(document() | change)

    assert pointer in found
    assert found[pointer][0] == told
    assert rule in found[pointer][1]


@pytest.mark.parametrize(
    ("change", "pointer", "rule"),
    [
        ({"name": "moon"}, "/name", "must be a region of AWS"),
        ({"network": "10.0.0.0"}, "/network", "with the length of its prefix"),
        ({"network": "10.0.0.1/16"}, "/network", "has host bits set"),
        ({"network": "300.0.0.0/16"}, "/network", "must be a network of IPv4"),
        ({"network": "fd00::/16"}, "/network", "must be a network of IPv4"),
        ({"network": "8.8.0.0/16"}, "/network", "must be a private network"),
        ({"network": "10.0.0.0/8"}, "/network", "must be a network of /16 to /20"),
        ({"network": "10.0.0.0/21"}, "/network", "must be a network of /16 to /20"),
        ({"api_server_cidrs": ["203.0.113.1"]}, "/api_server_cidrs/0", "with the length of its prefix"),
        ({"api_server_cidrs": ["0.0.0.0/0", "8.8.8.8/24"]}, "/api_server_cidrs/1", "has host bits set"),
        ({"api_server_cidrs": ["10.0.0.0/8"]}, "/api_server_cidrs/0", "must be a network of public addresses"),
        ({"zones": 2, "nat_gateways": 3}, "/nat_gateways", "must not be more than zones, 2"),
        ({"system": {"min_nodes": 4, "max_nodes": 3}}, "/system/max_nodes", "must not be less than min_nodes, 4"),
        ({"system": {"instance_types": ["t3.medium"]}}, "/system/instance_types/0", "must be of the architecture that is set, arm64"),
        ({"system": {"architecture": "x86_64"}}, "/system/instance_types/0", "must be of the architecture that is set, x86_64"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_region_is_told_with_its_place(change, pointer, rule):
    found = document()
    found["regions"][1] |= change

    (place, (_, told)) = faults(found).popitem()
    assert place == f"/regions/1{pointer}"
    assert rule in told


@pytest.mark.parametrize(
    "change",
    [
        {"network": "10.0.0.0/20", "zones": 3, "nat_gateways": 3},
        {"network": "172.31.0.0/16", "api_server_cidrs": ["8.8.8.0/24"]},
        {"network": "100.64.0.0/18"},
        {"system": {"architecture": "x86_64", "instance_types": ["m7i.large", "c6a.large", "g5.xlarge"]}},
        {"system": {"instance_types": ["m7gd.large", "g5g.xlarge", "is4gen.large", "a1.large", "p6e-gb200.36xlarge"]}},
    ],
    ids=str,
)
def test_what_can_work_is_taken(change):
    found = document()
    found["regions"][1] |= change

    assert Installation.of(found).regions[1].name == "eu-west-1"


def test_a_threshold_within_a_lease_is_told_beside_another_wrong_variable_and_not_where_the_lease_is_wrong():
    wrong = {"GPUFLEET_LEASE_SECONDS": "600", "GPUFLEET_DUE_SHARDS": "0"}
    assert set(faults(document(environment=wrong, alarms={"claim_seconds": 70}))) == {
        "/environment/GPUFLEET_DUE_SHARDS",
        "/alarms/claim_seconds",
    }
    wrong = {"GPUFLEET_LEASE_SECONDS": "soon"}
    assert set(faults(document(environment=wrong, alarms={"claim_seconds": 70}))) == {"/environment/GPUFLEET_LEASE_SECONDS"}


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        ({}, 180),
        ({"environment": {"GPUFLEET_LEASE_SECONDS": "600"}}, 1800),
        ({"environment": {"GPUFLEET_LEASE_SECONDS": "2.5"}}, 60),
        ({"environment": {"GPUFLEET_LEASE_SECONDS": "600"}, "alarms": {"claim_seconds": 600}}, 600),
    ],
)
def test_claims_are_told_of_after_three_leases_unless_said(change, seconds):
    assert Installation.of(document() | change).claim_alarm_seconds == seconds


def test_nothing_need_be_written_of_gpus():
    assert Installation.of(document(metrics={"rollups": []})).variables == {"GPUFLEET_METRICS_ROLLUPS": ""}


def test_regions_may_have_the_same_network_which_is_joined_to_no_other():
    found = document()
    for region in found["regions"]:
        del region["network"]

    assert {region.network for region in Installation.of(found).regions} == {"10.0.0.0/16"}


def test_the_nodes_of_a_pool_are_of_one_architecture():
    found = document()
    found["regions"][0]["pools"][2]["instance_types"] = ["m7i.4xlarge", "m7g.4xlarge"]

    assert faults(found)["/regions/0/pools/2/instance_types/1"][0] == "m7g.4xlarge"


@pytest.mark.parametrize("instance_type", ["g4ad.16xlarge", "trn2.48xlarge", "dl1.24xlarge", "m7i.4xlarge"])
def test_gpus_are_nvidias_since_nodes_get_no_other_driver(instance_type):
    found = document()
    found["regions"][0]["pools"][0]["instance_types"] = [instance_type]

    [(value, rule)] = [told for place, told in faults(found).items() if place == "/regions/0/pools/0/instance_types/0"]
    assert value == instance_type
    assert "NVIDIA" in rule


def test_tokens_may_have_an_issuer_with_a_slash_at_its_end():
    api = Installation.of(document(api=jwt("https://tenant.example/"))).api
    assert api.jwt is not None
    assert api.jwt.issuer == "https://tenant.example/"


def test_variables_of_who_looks_are_not_the_installations(monkeypatch):
    monkeypatch.setenv("GPUFLEET_READY_SHARDS", "many")

    assert faults(document(environment={"GPUFLEET_DUE_SHARDS": "0"})).keys() == {"/environment/GPUFLEET_DUE_SHARDS"}


def test_all_faults_are_told_at_once():
    found = document()
    found["regions"][0]["pools"][0] |= {"max_nodes": 0, "gpus": -1, "instance_types": ["large"]}
    found["control_region"] = "here"

    assert set(faults(found)) == {
        "/control_region",
        "/regions/0/pools/0/max_nodes",
        "/regions/0/pools/0/gpus",
        "/regions/0/pools/0/instance_types/0",
    }


def test_a_fault_of_one_setting_hides_none_between_others():
    found = document(3, alarms={"email": "a@b.example", "topic_arn": ELSEWHERE, "throttles": 0}, job_namespaces=["a", "a"])
    found = json.loads(json.dumps(found))  # its regions have pools of their own
    found["environment"] = {"GPUFLEET_TABLE": "mine", "GPUFLEET_LEASE_SECONDS": "-3", "TABLE": "mine"}
    found["charts"] = {"kueue": {"repository": "https://a.example", "version": "latest"}}
    found["regions"][0]["name"] = "mars"
    found["regions"][0]["pools"][0] |= {"max_nodes": 0, "instance_types": ["g6.xlarge", "g5g.xlarge"]}
    found["regions"][1] |= {"zones": 2, "nat_gateways": 3, "system": {"min_nodes": 4, "max_nodes": 3, "instance_types": ["large"]}}
    found["regions"][2]["name"] = found["regions"][1]["name"]
    found["regions"][2]["pools"][1] = {"name": found["regions"][2]["pools"][0]["name"]}

    missing = ("cpus", "gpus", "instance_types", "max_nodes", "memory_gib")
    assert set(faults(found)) == {
        "/alarms/email",
        "/alarms/throttles",
        "/alarms/topic_arn",
        "/charts/kueue/chart",
        "/charts/kueue/version",
        "/environment/GPUFLEET_LEASE_SECONDS",
        "/environment/GPUFLEET_TABLE",
        "/environment/TABLE",
        "/job_namespaces/1",
        "/regions/0/name",
        "/regions/0/pools/0/instance_types/1",
        "/regions/0/pools/0/max_nodes",
        "/regions/1/nat_gateways",
        "/regions/1/system/instance_types/0",
        "/regions/1/system/max_nodes",
        "/regions/2/name",
        "/regions/2/pools/1/name",
        *(f"/regions/2/pools/1/{name}" for name in missing),
    }


def test_a_setting_that_is_wrong_by_itself_breaks_no_rule_with_another():
    """What would be taken instead of it isn't what is there."""
    found = document(2, alarms={"topic_arn": TOPIC}, control_region="mars")
    found["regions"][0] |= {"zones": 9, "nat_gateways": 3}

    assert set(faults(found)) == {"/control_region", "/regions/0/zones"}


def test_a_region_or_a_pool_that_comes_twice_is_refused():
    twice = document()
    twice["regions"][1]["name"] = "us-east-1"
    assert faults(twice)["/regions/1/name"] == ("us-east-1", "must not come more than once")

    twice = document()
    twice["regions"][0]["pools"][1]["name"] = "gpu"
    assert faults(twice)["/regions/0/pools/1/name"] == ("gpu", "must not come more than once")

    twice = document()
    twice["regions"][0]["pools"][1]["name"] = "system"
    assert "must not be system" in faults(twice)["/regions/0/pools/1/name"][1]


@pytest.mark.parametrize(("text", "rule"), [(None, "must be a file that can be read"), ("= 1", "must be TOML")], ids=["missing", "no TOML"])
def test_a_file_that_is_none_is_told(tmp_path, text, rule):
    path = tmp_path / "settings.toml"
    if text is not None:
        path.write_text(text)

    with pytest.raises(InvalidError, match=rule) as caught:
        Installation.load(path)
    assert str(path) in str(caught.value)


def test_another_file_is_named_by_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ncontrol_region = "eu-west-1"\n[[regions]]\nname = "eu-west-1"\n[[regions.pools]]\nname = "gpu"\n'
        'instance_types = ["g6.xlarge"]\nmax_nodes = 1\ngpus = 1\ncpus = 4\nmemory_gib = 16\n'
    )
    monkeypatch.setenv("GPUFLEET_INFRA_SETTINGS", str(path))

    assert Installation.load().name == "mine"
