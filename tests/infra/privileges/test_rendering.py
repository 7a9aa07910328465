"""Rights as policies: ARNs, conditions, what an encryption key is asked for; and that the comparison sees what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra import resources
from infra.policies import document, key_actions
from infra.resources import Names
from infra.roles import DISPATCHER, ROLES, SWEEPER, Role, Statement
from tests.infra.emulator.checks import action_of, called, leading_keys, namespace_of
from tests.infra.emulator.record import Asked
from tests.infra.privileges.comparing import missing, unused

NAMES = Names(
    account="123456789012",
    control_region="us-east-1",
    regions=("us-east-1", "eu-west-1"),
    table="fleet",
    bucket="a-bucket",
    queue_prefix="fleet",
    clusters={"us-east-1": "one", "eu-west-1": "two"},
    own_region="eu-west-1",
)
TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/fleet"


@pytest.mark.parametrize(
    ("resource", "arns"),
    [
        pytest.param(resources.TABLE, [TABLE], id="table"),
        pytest.param(resources.index("due"), [f"{TABLE}/index/due"], id="index"),
        pytest.param(resources.STREAM, [f"{TABLE}/stream/*"], id="stream"),
        pytest.param(resources.BUCKET, ["arn:aws:s3:::a-bucket"], id="bucket"),
        pytest.param(resources.objects("logs/"), ["arn:aws:s3:::a-bucket/logs/*"], id="objects"),
        pytest.param(resources.queue("tasks"), ["arn:aws:sqs:us-east-1:123456789012:fleet-tasks"], id="queue"),
        pytest.param(
            resources.dead_letters("dispatch"),
            [f"arn:aws:sqs:us-east-1:123456789012:fleet-dispatch-{region}-dead" for region in NAMES.regions],
            id="dead-letters-of-all-regions",
        ),
        pytest.param(
            resources.queue("dispatch", own=True), ["arn:aws:sqs:us-east-1:123456789012:fleet-dispatch-eu-west-1"], id="own-region"
        ),
        pytest.param(resources.SECRETS, ["arn:aws:secretsmanager:us-east-1:123456789012:secret:fleet/*"], id="secrets"),
        pytest.param(
            resources.CLUSTERS,
            ["arn:aws:eks:us-east-1:123456789012:cluster/one", "arn:aws:eks:eu-west-1:123456789012:cluster/two"],
            id="clusters",
        ),
        pytest.param(resources.logs("api"), ["arn:aws:logs:us-east-1:123456789012:log-group:/aws/lambda/fleet-api:*"], id="logs"),
        pytest.param(resources.anything("no such thing"), ["*"], id="any"),
        pytest.param(resources.KEY, [], id="no-key"),
    ],
)
def test_a_resource_is_named_in_an_account(resource, arns):
    assert NAMES.arns(resource) == arns


def test_secrets_stay_where_they_were_made_when_the_table_has_another_name():
    restored = replace(NAMES, table="fleet-restored", secrets_prefix="fleet")
    assert restored.arns(resources.SECRETS) == NAMES.arns(resources.SECRETS)


def test_what_is_of_its_region_needs_one():
    with pytest.raises(ValueError, match="dispatch of its region: no region is said"):
        replace(NAMES, own_region=None).arns(resources.queue("dispatch", own=True))


def test_regions_are_put_into_conditions():
    dispatcher = document(DISPATCHER, NAMES)["Statement"][0]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    assert "COUNT#eu-west-1#*" in dispatcher
    asked = [one for one in document(SWEEPER, NAMES)["Statement"] if one["Action"] == ["ec2:DescribeSpotPriceHistory"]]
    assert [one["Condition"] for one in asked] == [{"StringEquals": {"aws:RequestedRegion": ["us-east-1", "eu-west-1"]}}]


@pytest.mark.parametrize(
    ("actions", "needed"),
    [
        pytest.param(("dynamodb:GetItem",), ("kms:Decrypt",), id="table"),
        pytest.param(("sqs:SendMessage",), ("kms:Decrypt", "kms:GenerateDataKey"), id="send"),
        pytest.param(("s3:PutObject",), ("kms:GenerateDataKey",), id="put"),
        pytest.param(("cloudwatch:PutMetricData",), (), id="nothing"),
    ],
)
def test_what_is_encrypted_takes_rights_to_its_key(actions, needed):
    role = Role(worker="any", statements=(Statement(actions=actions, resources=(resources.TABLE,)),))
    assert key_actions(role.statements) == needed
    last = document(role, replace(NAMES, key="arn:aws:kms:us-east-1:123456789012:key/k"))["Statement"][-1]
    assert (last["Action"] == list(needed)) is bool(needed)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.worker)
def test_no_right_is_wider_than_it_must_be(role):
    for statement in role.statements:
        assert not any("*" in action for action in statement.actions)
        for resource in statement.resources:
            if resource.kind is resources.Kind.ANY:
                assert resource.name, "a right to everything says why"


# The comparison

POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["dynamodb:GetItem", "dynamodb:PutItem"],
            "Resource": [TABLE],
            "Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["JOB#*", "COUNT#*"]}},
        },
    ],
}


def _asked(action="dynamodb:GetItem", resource=TABLE, key="JOB#1"):
    return Asked(caller="worker", action=action, resource=resource, keys=(("dynamodb:LeadingKeys", (key,)),))


@pytest.mark.parametrize(
    ("asked", "is_missing"),
    [
        pytest.param(_asked(), False, id="granted"),
        pytest.param(_asked("dynamodb:DeleteItem"), True, id="another-action"),
        pytest.param(_asked(resource=f"{TABLE}/index/due"), True, id="another-resource"),
        pytest.param(_asked(key="KEYS"), True, id="another-partition"),
    ],
)
def test_what_is_missing_is_told(asked, is_missing):
    assert bool(missing([asked], {"worker": POLICY})) is is_missing


def test_what_is_never_used_is_told_part_by_part():
    found = [str(right) for right in unused([_asked()], {"worker": POLICY})]
    assert found == [
        "worker: dynamodb:GetItem dynamodb:PutItem on its resources where dynamodb:LeadingKeys is COUNT#*",
        f"worker: dynamodb:PutItem on {TABLE}",
    ]


def test_of_things_that_are_alike_one_stands_for_all():
    statement = {"Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": ["queue-us-east-1", "queue-eu-west-1"]}
    asked = Asked(caller="worker", action="sqs:SendMessage", resource="queue-us-east-1")
    policies = {"worker": {"Statement": [statement]}}
    assert [right.resource for right in unused([asked], policies)] == ["queue-eu-west-1"]
    assert unused([asked], policies, alike=[{"us-east-1": "R", "eu-west-1": "R"}]) == []


# What the emulator is told of a request


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        pytest.param(b'{"Key": {"pk": {"S": "JOB#1"}, "sk": {"S": "HEAD"}}}', ["JOB#1"], id="get"),
        pytest.param(b'{"Item": {"pk": {"S": "KEYS"}}}', ["KEYS"], id="put"),
        pytest.param(b'{"RequestItems": {"t": {"Keys": [{"pk": {"S": "B"}}, {"pk": {"S": "A"}}]}}}', ["A", "B"], id="batch"),
        pytest.param(
            b'{"TransactItems": [{"Put": {"Item": {"pk": {"S": "A"}}}}, {"Delete": {"Key": {"pk": {"S": "B"}}}}]}',
            ["A", "B"],
            id="transaction",
        ),
        pytest.param(
            b'{"KeyConditionExpression": "d_pk = :p AND d_sk < :x", "ExpressionAttributeValues": {":p": {"S": "DUE#1"}, ":x": {"S": "2"}}}',
            ["DUE#1"],
            id="query",
        ),
        pytest.param(b"no JSON", [], id="nothing"),
    ],
)
def test_partition_keys_are_read_out_of_requests(body, keys):
    assert leading_keys(body) == keys


def test_actions_are_those_that_iam_asks_for():
    assert action_of("sqs:SendMessageBatch") == "sqs:SendMessage"
    assert action_of("s3:GetObject") == "s3:GetObject"
    assert called("monitoring", "/service/GraniteServiceVersion20100801/operation/PutMetricData") == "cloudwatch:PutMetricData"
    assert called("s3", "/bucket/key") is None


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(b'{"Namespace": "gpufleet/devices"}', "application/x-amz-json-1.0", id="json"),
        pytest.param(b"Action=PutMetricData&Namespace=gpufleet%2Fdevices", "application/x-www-form-urlencoded", id="query"),
        pytest.param(b"\xa1iNamespacepgpufleet/devices", "application/cbor", id="cbor"),
    ],
)
def test_the_namespace_of_metrics_is_read_in_every_protocol(body, content_type):
    assert namespace_of(body, content_type) == "gpufleet/devices"
