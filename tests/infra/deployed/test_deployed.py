"""The stacks as they are synthesized, on the emulator's CloudFormation: the fleet runs on what they made, and on nothing else."""

from __future__ import annotations

import pytest

from infra.functions import FUNCTIONS
from infra.outputs import CONTROL, for_people
from infra.policies import document
from infra.resources import Names
from infra.roles import ROLES
from shared.settings import Settings
from tests.infra.accounts import ACCOUNT
from tests.infra.deployed.conftest import printed
from tests.infra.deployed.installation import CONTROL_REGION, MONITORING, UNKNOWN
from tests.infra.privileges import verbs

pytestmark = [
    pytest.mark.infra,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("deployed"),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_the_demo_s_jobs_run_on_what_the_stacks_made(deployed):
    wrong = [f"{one.name}: {one.found} and not {one.wanted}; {'; '.join(one.why)}" for one in deployed.figures if not one.right]
    assert not wrong, "\n".join(wrong)


async def test_nothing_was_refused_by_the_roles_of_the_templates(deployed):
    assert sorted(f"{one.caller}: {one.action} on {one.resource} {one.keys}" for one in deployed.asked() if not one.allowed) == []
    assert {one.caller for one in deployed.asked()} == {
        deployed.installation.role(role.worker, region)
        for role in ROLES
        for region in (deployed.fleet.options.regions if role.pod else (None,))
    }


async def test_nothing_was_refused_by_the_roles_that_the_stacks_apply_to_clusters(deployed):
    assert verbs.refused(deployed.audit()) == []
    assert {one.user for one in deployed.audit() if one.allowed} >= {
        "gpufleet:metrics",
        "system:serviceaccount:gpufleet:dispatcher",
        "system:serviceaccount:gpufleet:observer",
    }


async def test_the_roles_are_those_of_the_one_place_where_rights_are_granted(deployed):
    settings = Settings()
    with deployed.fleet.client("iam") as iam:
        for role in ROLES:
            for region in deployed.fleet.options.regions if role.pod else (None,):
                name = deployed.installation.role(role.worker, region)
                names = Names(
                    account=ACCOUNT,
                    control_region=CONTROL_REGION,
                    regions=settings.regions,
                    table="gpufleet",
                    bucket=deployed.installation.environment()["GPUFLEET_BUCKET"],
                    queue_prefix="gpufleet",
                    clusters=dict.fromkeys(settings.regions, "gpufleet"),
                    key=deployed.installation.outputs[CONTROL]["KeyArn"],
                    own_region=region,
                )
                (policy,) = iam.list_role_policies(RoleName=name)["PolicyNames"]
                assert iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"] == []
                granted = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
                assert _parts(granted) == _parts(document(role, names)), name


def _parts(policy):
    """A policy as a set of its smallest parts, however its statements were written."""
    return {
        (action, resource, str(sorted((one.get("Condition") or {}).items())))
        for one in policy["Statement"]
        for action in _listed(one["Action"])
        for resource in _listed(one["Resource"])
    }


def _listed(value):
    return [value] if isinstance(value, str) else value


async def test_every_function_was_called_by_its_own_source(deployed):
    with deployed.fleet.client("lambda") as functions:
        mapped = {one["FunctionArn"].rpartition(":")[2] for one in functions.list_event_source_mappings()["EventSourceMappings"]}
    with deployed.fleet.client("events") as events:
        rules = events.list_rules()["Rules"]
        targets = [one["Arn"] for rule in rules for one in events.list_targets_by_rule(Rule=rule["Name"])["Targets"]]
    with deployed.fleet.client("apigatewayv2") as gateway:
        (found,) = gateway.get_apis()["Items"]
        integrations = [one["IntegrationUri"] for one in gateway.get_integrations(ApiId=found["ApiId"])["Items"]]
    for function in FUNCTIONS:
        name = f"gpufleet-{function.name}"
        assert name in mapped or any(f"function:{name}" in arn for arn in (*targets, *integrations)), name


async def test_what_the_emulator_does_not_know_is_what_is_said_here(deployed):
    left_out = deployed.installation.left_out
    assert left_out[CONTROL].unknown == frozenset()
    for stack in deployed.installation.regions:
        assert (left_out[stack].unknown, left_out[stack].dangling) == (frozenset(UNKNOWN), {"AWS::EC2::Route"})
    assert left_out[MONITORING].unknown == {"AWS::CloudWatch::Alarm"}  # those that reckon with several metrics
    assert left_out[MONITORING].dangling <= {"AWS::CloudWatch::Dashboard"}  # that show them


async def test_people_are_told_where_everything_is(deployed):
    told = await printed(deployed.fleet, "--region", CONTROL_REGION)
    wanted = for_people(deployed.installation.outputs[CONTROL])
    assert told.splitlines() == [f"export {name}={value}" for name, value in wanted.items()]


async def test_who_signs_nothing_is_refused(deployed):
    answer = await deployed.client.get("/api/v1/queue/jobs", auth=None)
    assert answer.status_code == 403
    assert (await deployed.client.get("/healthz", auth=None)).status_code == 200
