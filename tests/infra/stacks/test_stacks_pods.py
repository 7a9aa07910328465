"""The roles of pods on clusters without the stacks: the documents that are printed are those that the stacks attach."""

from __future__ import annotations

import json

import pytest

from infra import pods
from tests.infra.stacks.assembly import ACCOUNT, KEY

pytestmark = pytest.mark.infra
REGION = "eu-west-1"


@pytest.fixture
def settings(two, monkeypatch):
    """What `python -m infra.outputs` prints of the installation."""
    one = two.installation
    values = {"TABLE": one.name, "BUCKET": f"{one.name}-{ACCOUNT}-{one.control_region}", "QUEUE_PREFIX": one.name}
    values |= {"CONTROL_REGION": one.control_region, "REGIONS": ",".join(one.region_names)}
    for name, value in values.items():
        monkeypatch.setenv(f"GPUFLEET_{name}", value)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("worker", pods.WORKERS)
def test_rights_and_trust_are_what_the_stacks_give_a_workers_pods(two, capsys, worker):
    told = {}
    for what, more in (("rights", ["--key", KEY]), ("trust", ["--cluster", two.installation.name])):
        assert pods.main([what, worker, "--account", ACCOUNT, "--region", REGION, *more]) == 0
        told[what] = json.loads(capsys.readouterr().out)["Statement"]

    role = two.control.named("AWS::IAM::Role", "RoleName")[f"{two.installation.name}-{worker}-{REGION}"]
    (policy,) = role["Policies"]
    assert [plain(one) for one in told["rights"]] == [plain(two.control.resolve(one)) for one in policy["PolicyDocument"]["Statement"]]
    trusted = [two.control.resolve(one) for one in role["AssumeRolePolicyDocument"]["Statement"]]
    assert {action for one in trusted for action in plain(one)["Action"]} == set(told["trust"][0]["Action"])
    assert all((one["Principal"], one["Condition"]) == (told["trust"][0]["Principal"], told["trust"][0]["Condition"]) for one in trusted)


def plain(statement):
    """A statement with lists where IAM takes one value for a list of it."""
    listed = {
        name: statement[name] if isinstance(statement[name], list) else [statement[name]]
        for name in ("Action", "Resource")
        if name in statement
    }
    return statement | listed


@pytest.mark.usefixtures("settings")
def test_a_region_that_the_settings_do_not_have_is_refused(capsys):
    assert pods.main(["rights", "dispatcher", "--account", ACCOUNT, "--region", "ap-south-1"]) == 2
    assert capsys.readouterr().err.startswith("/region")


def test_trust_of_no_cluster_is_refused(capsys):
    with pytest.raises(SystemExit):
        pods.main(["trust", "dispatcher", "--account", ACCOUNT, "--region", REGION])
    assert "trust needs --cluster" in capsys.readouterr().err
