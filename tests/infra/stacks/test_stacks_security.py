"""What holds in all stacks: who may do what, what is encrypted, what cdk-nag finds."""

from __future__ import annotations

import json

import pytest

from tests.infra.stacks.assembly import Template
from tests.infra.stacks.installations import INSTALLATIONS, installation

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]


@pytest.fixture(params=sorted(INSTALLATIONS))
def assembly(request, assemblies):
    return assemblies[request.param]


def findings(outdir):
    report = json.loads((outdir / "validation-report.json").read_text())
    return [(one["ruleName"], where["constructPath"]) for plugin in report["pluginReports"] for one in plugin["violations"] for where in one["violatingConstructs"]]  # fmt: skip  # noqa: E501


def test_cdk_nag_finds_nothing_that_isnt_acknowledged(assembly):
    assert findings(assembly.outdir) == []


def test_each_acknowledgment_says_why(assembly):
    told = [
        (one["id"], one["reason"])
        for template in assembly.templates
        for resource in template.resources.values()
        for one in resource.get("Metadata", {}).get("cdk_nag", {}).get("rules_to_suppress", [])
        if one["id"].startswith("AwsSolutions")  # CDK itself acknowledges what CloudFormation says of its network
    ]
    assert told
    assert all(len(reason.split()) >= 4 for _, reason in told)
    rules = {one.partition("[")[0] for one, _ in told}
    assert rules <= {"AwsSolutions-S1", "AwsSolutions-IAM4", "AwsSolutions-IAM5", "AwsSolutions-APIG4", "AwsSolutions-L1"}


def test_the_check_would_tell_of_what_is_wrong(assemblies, tmp_path):
    from aws_cdk import Stack
    from aws_cdk import aws_s3 as s3

    from infra.cdk.app import build

    app = build(installation(1, charts={}), packages=assemblies.packages, outdir=tmp_path / "out")
    s3.Bucket(Stack(app, "careless"), "Bucket")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()

    assert ("AwsSolutions-S10", "careless/Bucket/Resource") in findings(tmp_path / "out")


def test_nothing_may_do_everything(assembly):
    for template in assembly.templates:
        for name, statement in template.statements():
            if statement["Effect"] == "Allow":
                actions = statement["Action"]
                for action in [actions] if isinstance(actions, str) else actions:
                    assert "*" not in action, (name, action)


def test_every_queue_bucket_and_topic_takes_tls_only(assembly):
    for template in assembly.templates:
        for kind, policy, field in (
            ("AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "Queues"),
            ("AWS::S3::Bucket", "AWS::S3::BucketPolicy", "Bucket"),
            ("AWS::SNS::Topic", "AWS::SNS::TopicPolicy", "Topics"),
        ):
            refused = set()
            for one in template.of(policy).values():
                named = template.resolve(one[field])
                if any(_is_refusal_of_plain(statement) for statement in one["PolicyDocument"]["Statement"]):
                    refused |= {named} if isinstance(named, str) else set(named)
            assert set(template.of(kind)) <= refused


def _is_refusal_of_plain(statement):
    return statement["Effect"] == "Deny" and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}


def test_everything_that_keeps_something_is_encrypted(assembly):
    for template in assembly.templates:
        for one in template.of("AWS::SQS::Queue").values():
            assert template.resolve(one["KmsMasterKeyId"]) == "KEY"
        for one in template.of("AWS::S3::Bucket").values():
            assert one["BucketEncryption"]
        for one in template.of("AWS::Logs::LogGroup").values():
            assert template.resolve(one["KmsKeyId"]) == "KEY"
            assert one["RetentionInDays"] == assembly.installation.log_retention_days
        for one in template.of("AWS::SNS::Topic").values():
            assert one["KmsMasterKeyId"]
        for one in template.of("AWS::KMS::Key").values():
            assert one["EnableKeyRotation"] is True


def test_every_function_writes_to_a_log_group_of_the_stack(assembly):
    for template in assembly.templates:
        groups = {template.resolve(one.get("LogGroupName", name)) for name, one in template.of("AWS::Logs::LogGroup").items()}
        groups |= set(template.of("AWS::Logs::LogGroup"))
        for name, one in template.of("AWS::Lambda::Function").items():
            told = template.resolve(one.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{one.get('FunctionName')}"))
            assert told in groups, name


def test_the_key_is_used_only_through_the_services_that_keep_what_it_encrypts(two):
    (key,) = two.control.of("AWS::KMS::Key").values()
    by_id = {one["Sid"]: two.control.resolve(one) for one in key["KeyPolicy"]["Statement"]}

    assert by_id["UseThroughServices"]["Condition"] == {
        "StringEquals": {"kms:ViaService": [f"{one}.us-east-1.amazonaws.com" for one in ("dynamodb", "s3", "sqs", "sns")]}
    }
    assert not {"kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"} & set(by_id["Administration"]["Action"])
    assert all("Condition" in one for name, one in by_id.items() if name != "Administration")


def test_a_template_is_no_larger_than_cloudformation_takes(assembly):
    # 1 MB, 500 resources, 200 outputs: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
    for path in assembly.outdir.glob("*.template.json"):
        found = Template(json.loads(path.read_text()))
        assert len(json.dumps(found.document)) < 1_000_000
        assert len(found.resources) <= 500
        assert len(found.document.get("Outputs", {})) <= 200


def test_an_inline_policy_is_no_larger_than_iam_takes(five):
    # 10,240 characters without white space: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
    for template in five.templates:
        for name, one in template.of("AWS::IAM::Role").items():
            policies = [template.resolve(policy["PolicyDocument"]) for policy in one.get("Policies", [])]
            size = sum(len(json.dumps(policy, separators=(",", ":"))) for policy in policies)
            assert size <= 10_240, name
