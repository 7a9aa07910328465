"""What an embedded fleet is not started with, told before anything is started: options, settings of the user, the policy file."""

import json
from pathlib import Path

import pytest

from workers.local import plan
from workers.local.fleet import EmbeddedFleet
from workers.local.options import DEFAULT_NODES, Options
from workers.local.refusals import UnusableError
from workers.local.user_settings import check, of_user


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"regions": ()}, "--regions: (empty): must name at least one region"),
        ({"regions": ("us-east-1", "us-east-1")}, "--regions: us-east-1,us-east-1: must name each region once"),
        ({"regions": ("us-east-1", "")}, "nothing between two commas is none"),
        *(
            ({"regions": (bad,)}, f"--regions: {bad}: must be names")
            for bad in ("a", "US-EAST-1", "us-east", "us_east-1", "us-east-1x", "../x")
        ),
        ({"dispatchers": 0}, "--dispatchers: 0: must be from 1 to 32"),
        ({"dispatchers": 33}, "--dispatchers: 33: must be from 1 to 32"),
        ({"nodes": ""}, "--nodes: (empty): nothing is not COUNTxTYPE"),
        ({"nodes": "m5.large,"}, "the part between two commas or at the end is not COUNTxTYPE"),
        ({"nodes": "-1xm5.large"}, "-1xm5.large is not COUNTxTYPE"),
        ({"nodes": "0xm5.large"}, "0xm5.large makes no cluster of 1 to 1000 machines"),
        ({"nodes": "999999999xm5.large"}, "makes no cluster of 1 to 1000 machines"),
        ({"nodes": "999xm5.large,2xm5.large"}, "2xm5.large makes no cluster of 1 to 1000 machines"),
        ({"nodes": "²xm5.large"}, "²xm5.large is not COUNTxTYPE"),
        ({"nodes": "2xm5.large:sopt"}, "unknown capacity sopt in 2xm5.large:sopt; known are on-demand, spot"),
        ({"nodes": "2xm5.large:"}, "unknown capacity (empty) in 2xm5.large:"),
        ({"nodes": "2xq9.nano"}, "unknown instance type q9.nano"),
        ({"nodes": "nonsense"}, "nonsense is not COUNTxTYPE"),
    ],
)
def test_options_that_make_no_fleet_are_refused(bad: dict[str, object], told: str) -> None:
    with pytest.raises(UnusableError) as caught:
        Options(**bad)  # type: ignore[arg-type]

    (refusal,) = caught.value.refusals
    assert told in str(refusal)


@pytest.mark.parametrize("region", ["us-east-1", "us-gov-west-1", "ap-southeast-5", "cn-north-1", "eusc-de-east-1"])
def test_regions_of_aws_are_regions(region: str) -> None:
    assert Options(regions=(region,)).regions == (region,)


@pytest.mark.parametrize("nodes", [DEFAULT_NODES, "1000xm5.large", "m5.large, 2xp5.48xlarge:spot", "m5.large:on-demand"])
def test_machines_that_can_be_made_are_taken(nodes: str) -> None:
    assert Options(nodes=nodes).nodes == nodes


def test_machines_of_real_clusters_are_their_own_business(tmp_path: Path) -> None:
    assert Options(nodes="whatever", kubeconfig=tmp_path).kubeconfig == tmp_path


USERS = {
    "GPUFLEET_POLICY_FILE": "policy.json",
    "GPUFLEET_KUEUE_QUEUE": "gpus",
    "GPUFLEET_LOG_LEVEL": "DEBUG",
    "GPUFLEET_MAX_BODY_BYTES": "2048",
    "GPUFLEET_LEASE_SECONDS": "33",
}


def test_settings_of_the_user_reach_every_worker_and_nothing_else_does(tmp_path: Path) -> None:
    others = {"PATH": "/bin", "AWS_PROFILE": "x", "GPUFLEET_API": "http://x", "GPUFLEET_OUTSIDE_A": "b", "GPUFLEET_JOB_ID": "j"}

    given, unknown = of_user(USERS | others)

    layout = plan.Layout(aws_port=1, api_port=2, cluster_ports={}, kubeconfig=tmp_path, spot_prices=tmp_path / "prices", scratch=tmp_path)
    assert (given, unknown) == (USERS, [])
    for spec in plan.workers(Options(settings=given), layout):
        assert {name: spec.environment.get(name) for name in USERS} == USERS, spec.name


def test_a_setting_is_known_however_its_name_is_written() -> None:
    assert of_user({"gpufleet_lease_seconds": "5"}) == ({"GPUFLEET_LEASE_SECONDS": "5"}, [])


def test_a_name_that_no_program_knows_is_told() -> None:
    assert of_user({"GPUFLEET_LEASE_SECOND": "5"}) == ({}, ["GPUFLEET_LEASE_SECOND"])


def test_what_up_decides_itself_is_refused_where_the_environment_says_something_else() -> None:
    wrong = {
        "GPUFLEET_TABLE": "production",
        "GPUFLEET_REGIONS": "us-west-2",
        "GPUFLEET_KUBECONFIG": "/x",
        "GPUFLEET_SPOT_PRICES_FILE": "/y",
    }

    with pytest.raises(UnusableError) as caught:
        of_user(wrong, GPUFLEET_REGIONS="us-east-1")

    assert [str(one) for one in caught.value.refusals] == [
        "GPUFLEET_TABLE: production: must be left to gpufleet up; leave it out",
        "GPUFLEET_REGIONS: us-west-2: must be left to gpufleet up; use --regions",
        "GPUFLEET_KUBECONFIG: /x: must be left to gpufleet up; use --kubeconfig",
        "GPUFLEET_SPOT_PRICES_FILE: /y: must be left to gpufleet up; edit spot-prices.json in the state directory, also while it runs",
    ]


def test_the_port_that_the_image_sets_for_one_worker_is_not_given_to_all_of_a_fleet() -> None:
    assert of_user({"GPUFLEET_PROBE_PORT": "9108"}) == ({}, [])


def test_the_same_value_is_no_contradiction() -> None:
    same = {"GPUFLEET_TABLE": "gpufleet", "GPUFLEET_REGIONS": "us-east-1", "GPUFLEET_API_HOST": "127.0.0.1"}

    assert of_user(same, GPUFLEET_REGIONS="us-east-1") == ({}, [])


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("LEASE_SECONDS", "soon", "must be a number"),
        ("LEASE_SECONDS", "0", "must be more than 0"),
        ("LEASE_SECONDS", "inf", "must be a finite number"),
        ("SWEEP_SECONDS", "nan", "must be a finite number"),
        ("MAX_BODY_BYTES", "1", "must be at least 1024"),
        ("READY_SHARDS", "65", "must be at most 64"),
        ("LOG_LEVEL", "LOUD", "'DEBUG', 'INFO', 'WARNING'"),
        ("POLICY_FILE", "/no/such/file", "must be a file that can be read: No such file or directory"),
        ("POLICY_FILE", "/", "must be a file that can be read: Is a directory"),
    ],
)
def test_a_wrong_setting_is_told_by_its_name_with_its_value_and_the_rule(name: str, value: str, rule: str) -> None:
    with pytest.raises(UnusableError) as caught:
        check({f"GPUFLEET_{name}": value})

    (refusal,) = caught.value.refusals
    assert (refusal.field, refusal.value) == (f"GPUFLEET_{name}", value)
    assert rule in refusal.rule


@pytest.mark.parametrize(
    ("text", "rule"), [("{", "JSON"), ("[]", "object"), ('{"max_gpu": 1}', "/max_gpu: must be a setting of the policy")]
)
def test_a_broken_policy_file_is_told_with_the_place(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text)

    with pytest.raises(UnusableError) as caught:
        check({"GPUFLEET_POLICY_FILE": str(path)})

    assert all((one.field, one.value) == ("GPUFLEET_POLICY_FILE", str(path)) for one in caught.value.refusals)
    assert rule in str(caught.value)


def test_right_settings_and_a_right_policy_pass_whatever_our_own_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"allowed_namespaces": ["research"]}))
    monkeypatch.setenv("GPUFLEET_LEASE_SECONDS", "broken")

    check({"GPUFLEET_POLICY_FILE": str(path), "GPUFLEET_LOG_LEVEL": "debug"})


async def test_nothing_is_started_and_nothing_written_with_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(UnusableError, match="GPUFLEET_LEASE_SECONDS"):
        async with EmbeddedFleet(Options(state=tmp_path / "state", settings={"GPUFLEET_LEASE_SECONDS": "x"})):
            pass

    assert not (tmp_path / "state").exists()


def test_a_worker_is_given_the_time_that_it_gives_itself_to_end(tmp_path: Path) -> None:
    layout = plan.Layout(aws_port=1, api_port=2, cluster_ports={}, kubeconfig=tmp_path, spot_prices=tmp_path, scratch=tmp_path)

    specs = plan.workers(Options(settings={"GPUFLEET_SHUTDOWN_SECONDS": "30"}), layout)

    assert {spec.stop_seconds for spec in specs} == {34.0}
