"""A region more: nothing that stands is replaced or gone, and only what must know of it changes."""

from __future__ import annotations

import json

import pytest

from infra.functions import FUNCTIONS

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]
NEW = "eu-west-1"


def plain(resource):
    """What an update of a stack looks at: nothing happens to a resource whose order alone is another."""
    return {key: value for key, value in resource.items() if key not in {"Metadata", "DependsOn"}}


@pytest.fixture
def changed(assemblies):
    """The logical ids of the first installation's resources that are other in the second, by stack."""
    before, after = assemblies["one"], assemblies["two"]

    def of(stack):
        old, new = before.template(stack).resources, after.template(stack).resources
        assert set(old) <= set(new)
        return {name for name, one in old.items() if plain(one) != plain(new[name])}

    return of


def test_the_control_stack_learns_of_it_in_settings_and_rights_only(assemblies, changed):
    resources = assemblies["two"].control.resources
    kinds = {resources[name]["Type"] for name in changed("control")}

    assert kinds == {"AWS::Lambda::Function", "AWS::IAM::Role"}


def test_nothing_of_the_control_stack_is_replaced(assemblies, changed):
    before, after = assemblies["one"].control.resources, assemblies["two"].control.resources
    for name in changed("control"):
        old, new = before[name]["Properties"], after[name]["Properties"]
        allowed = {"Environment"} if before[name]["Type"] == "AWS::Lambda::Function" else {"Policies"}
        assert {key for key in old if old[key] != new[key]} <= allowed
    roles = [name for name in changed("control") if before[name]["Type"] == "AWS::IAM::Role"]
    assert roles


def test_what_the_control_stack_adds_is_the_regions_queue_its_roles_and_its_schedule(assemblies):
    before, after = assemblies["one"].control, assemblies["two"].control
    added = [one for name, one in after.resources.items() if name not in before.resources]

    assert {one["Type"] for one in added} == {
        "AWS::SQS::Queue",
        "AWS::SQS::QueuePolicy",
        "AWS::IAM::Role",
        "AWS::Events::Rule",
        "AWS::Lambda::Permission",
    }
    named = [one["Properties"].get("QueueName") or one["Properties"].get("RoleName") or one["Properties"].get("Name") for one in added]
    assert all(name.endswith((NEW, f"{NEW}-dead")) for name in named if isinstance(name, str))


def test_functions_know_of_it_after_its_queue_is_there(assemblies):
    control = assemblies["two"].control
    (queue,) = [name for name, one in control.of("AWS::SQS::Queue").items() if one["QueueName"] == f"gpufleet-dispatch-{NEW}"]
    functions = [one for one in control.resources.values() if one["Type"] == "AWS::Lambda::Function"]
    assert len(functions) == len(FUNCTIONS)
    assert all(queue in one["DependsOn"] for one in functions)


def test_another_regions_stack_changes_in_nothing_but_its_workers_settings(assemblies, changed):
    found = changed("us-east-1")

    resources = assemblies["two"].template("us-east-1").resources
    assert {resources[name]["Type"] for name in found} == {"Custom::AWSCDK-EKS-KubernetesResource"}
    (name,) = found
    before, after = (assemblies[each].template("us-east-1") for each in ("one", "two"))
    old, new = (json.loads(one.resolve(one.resources[name]["Properties"]["Manifest"])) for one in (before, after))
    others = {one["kind"] for one, other in zip(old, new, strict=True) if one != other}
    assert others == {"ConfigMap", "Deployment"}


def test_the_monitoring_keeps_its_alarms(assemblies, changed):
    resources = assemblies["two"].monitoring.resources
    assert {resources[name]["Type"] for name in changed("monitoring")} == {"AWS::CloudWatch::Dashboard"}


def test_regions_take_nothing_from_other_stacks_but_names(five):
    for region in five.installation.region_names:
        assert "Fn::ImportValue" not in json.dumps(five.template(region).document)


def test_a_region_is_deployed_after_the_control_stack(five):
    manifest = json.loads((five.outdir / "manifest.json").read_text())["artifacts"]
    for region in five.installation.region_names:
        assert "gpufleet-control" in manifest[f"gpufleet-{region}"]["dependencies"]


def test_no_account_is_named(five):
    manifest = json.loads((five.outdir / "manifest.json").read_text())["artifacts"]
    environments = {one["environment"] for one in manifest.values() if one["type"] == "aws:cloudformation:stack"}
    assert environments == {f"aws://unknown-account/{region}" for region in five.installation.region_names}
