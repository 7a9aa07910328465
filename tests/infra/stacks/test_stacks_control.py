"""The control stack: what it makes is what the workers expect to find."""

from __future__ import annotations

import json

import pytest

from infra.functions import ARCHITECTURE, FUNCTIONS, PYTHON, HttpApiSource, QueueSource, ScheduleSource, StreamSource
from infra.policies import document
from infra.roles import ROLES
from shared.settings import dead_letter_queue
from shared.store.bootstrap import DEAD_LETTER_ATTRIBUTES, EXPIRES, MAX_RECEIVES, QUEUE_ATTRIBUTES, table_shape
from shared.store.lifecycle import LIFECYCLE
from tests.infra.stacks.assembly import ACCOUNT, KEY

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]
BUCKET = f"gpufleet-{ACCOUNT}-us-east-1"


def settings(assembly):
    return assembly.installation.settings(bucket=BUCKET)


def test_the_table_is_the_one_that_bootstrap_makes(two):
    wanted = table_shape("gpufleet")
    found = two.control.one("AWS::DynamoDB::Table")

    assert found["TableName"] == "gpufleet"
    for part in ("BillingMode", "KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes"):
        assert found[part] == wanted[part]
    assert found["StreamSpecification"] == {"StreamViewType": wanted["StreamSpecification"]["StreamViewType"]}
    assert found["TimeToLiveSpecification"] == {"AttributeName": EXPIRES, "Enabled": True}


def test_the_table_is_recoverable_encrypted_and_not_deleted(two):
    found = two.control.one("AWS::DynamoDB::Table")

    assert found["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert two.control.resolve(found["SSESpecification"]) == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
    assert found["DeletionProtectionEnabled"] is True
    kept = {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::KMS::Key", "AWS::Logs::LogGroup"}
    resources = {name: one for name, one in two.control.resources.items() if one["Type"] in kept and not name.startswith("Queuedispatch")}
    assert {(one["DeletionPolicy"], one["UpdateReplacePolicy"]) for one in resources.values()} == {("Retain", "Retain")}


def test_nothing_that_is_kept_is_called_by_a_region_so_that_it_can_be_added_again(two):
    kept = [one["Properties"] for one in two.control.resources.values() if one.get("DeletionPolicy") == "Retain"]
    names = [str(two.control.resolve(value)) for one in kept for field, value in one.items() if field.endswith("Name")]
    assert "gpufleet-submissions" in names
    assert [name for name in names if "eu-west-1" in name] == []
    # Its own stack keeps the key alone, which has no name: its alias goes.
    own = [one["Type"] for one in two.template("eu-west-1").resources.values() if one.get("DeletionPolicy") == "Retain"]
    assert own == ["AWS::KMS::Key"]


def test_an_installation_for_a_while_leaves_nothing(five):
    found = five.control
    assert found.one("AWS::DynamoDB::Table")["DeletionProtectionEnabled"] is False
    assert {one["DeletionPolicy"] for one in found.resources.values() if "DeletionPolicy" in one} == {"Delete"}


def test_the_queues_are_those_that_bootstrap_makes(two):
    queues = two.control.named("AWS::SQS::Queue", "QueueName")
    names = settings(two).queues()

    assert set(queues) == {*names, *map(dead_letter_queue, names)}
    behind = {f"gpufleet-{source.queue}": one for one in FUNCTIONS for source in one.sources if isinstance(source, QueueSource)}
    for name in names:
        queue, dead = queues[name], queues[dead_letter_queue(name)]
        assert str(queue["MessageRetentionPeriod"]) == QUEUE_ATTRIBUTES["MessageRetentionPeriod"]
        assert str(queue["ReceiveMessageWaitTimeSeconds"]) == QUEUE_ATTRIBUTES["ReceiveMessageWaitTimeSeconds"]
        longest = max(int(QUEUE_ATTRIBUTES["VisibilityTimeout"]), 6 * behind[name].timeout_seconds if name in behind else 0)
        assert queue["VisibilityTimeout"] == longest
        assert queue["RedrivePolicy"]["maxReceiveCount"] == MAX_RECEIVES
        target = two.control.resolve(queue["RedrivePolicy"]["deadLetterTargetArn"]).removesuffix(".Arn")
        assert two.control.of("AWS::SQS::Queue")[target] == dead
        assert str(dead["MessageRetentionPeriod"]) == DEAD_LETTER_ATTRIBUTES["MessageRetentionPeriod"]


def test_the_buckets_are_closed_and_keep_what_the_store_says(two):
    buckets = two.control.of("AWS::S3::Bucket")
    everything = {"BlockPublicAcls": True, "BlockPublicPolicy": True, "IgnorePublicAcls": True, "RestrictPublicBuckets": True}
    assert [one["PublicAccessBlockConfiguration"] for one in buckets.values()] == [everything, everything]

    (found,) = [one for one in buckets.values() if "BucketName" in one]
    assert two.control.resolve(found["BucketName"]) == BUCKET
    assert found["VersioningConfiguration"] == {"Status": "Enabled"}
    assert {one["Id"]: _rule(one) for one in found["LifecycleConfiguration"]["Rules"]} == {
        one.id: (one.prefix, one.days, one.old_version_days, one.upload_days) for one in LIFECYCLE
    }


def _rule(found):
    return (
        found.get("Prefix", ""),
        found.get("ExpirationInDays"),
        found.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays"),
        found.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation"),
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_each_function_is_as_it_is_described(two, function):
    control = two.control
    found = control.named("AWS::Lambda::Function", "FunctionName")[f"gpufleet-{function.name}"]

    assert (found["Handler"], found["Runtime"], found["Architectures"]) == (function.handler, f"python{PYTHON}", [ARCHITECTURE])
    assert (found["MemorySize"], found["Timeout"]) == (function.memory_mb, function.timeout_seconds)
    assert "ReservedConcurrentExecutions" not in found
    variables = control.resolve(found["Environment"]["Variables"])
    assert variables["GPUFLEET_TABLE"] == variables["GPUFLEET_QUEUE_PREFIX"] == "gpufleet"
    assert variables["GPUFLEET_BUCKET"] == BUCKET
    assert variables["GPUFLEET_REGIONS"] == "us-east-1,eu-west-1"
    assert ("GPUFLEET_EKS_CLUSTERS" in variables) is function.reaches_clusters
    assert function.environment.items() <= variables.items()
    role = control.resources[control.resolve(found["Role"]).removesuffix(".Arn")]["Properties"]
    assert role["RoleName"] == f"gpufleet-{function.role}"
    assert f"/aws/lambda/gpufleet-{function.name}" in control.named("AWS::Logs::LogGroup", "LogGroupName")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_each_function_is_called_by_what_is_said(two, function):
    control = two.control
    (logical,) = [name for name, one in control.of("AWS::Lambda::Function").items() if one["FunctionName"] == f"gpufleet-{function.name}"]
    mappings = [one for one in control.of("AWS::Lambda::EventSourceMapping").values() if control.resolve(one["FunctionName"]) == logical]
    rules = [one for one in control.of("AWS::Events::Rule").values() if control.resolve(one["Targets"][0]["Arn"]) == f"{logical}.Arn"]

    assert all(one["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for one in mappings)
    wanted = [source for source in function.sources if isinstance(source, QueueSource | StreamSource)]
    assert len(mappings) == len(wanted)
    for source, mapping in zip(wanted, mappings, strict=True):
        assert mapping["BatchSize"] == source.batch_size
        match source:
            case QueueSource():
                queue = control.resolve(mapping["EventSourceArn"]).removesuffix(".Arn")
                assert control.of("AWS::SQS::Queue")[queue]["QueueName"] == f"gpufleet-{source.queue}"
                assert mapping["ScalingConfig"] == {"MaximumConcurrency": source.maximum_concurrency}
            case StreamSource():
                assert control.resolve(mapping["EventSourceArn"]).endswith(".StreamArn")
                assert mapping["StartingPosition"] == "TRIM_HORIZON"
                assert [json.loads(one["Pattern"]) for one in mapping["FilterCriteria"]["Filters"]] == [dict(one) for one in source.filters]
                assert "MaximumRetryAttempts" not in mapping
    payloads = [
        (f"rate({source.minutes} minute{'s' if source.minutes > 1 else ''})", dict(payload))
        for source in function.sources
        if isinstance(source, ScheduleSource)
        for payload in source.payloads(two.installation.region_names)
    ]
    assert [(one["ScheduleExpression"], json.loads(one["Targets"][0]["Input"])) for one in rules] == payloads
    assert {one["Targets"][0]["RetryPolicy"]["MaximumRetryAttempts"] for one in rules} <= {0}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.worker)
def test_each_worker_has_the_rights_of_its_role_and_no_others(two, role):
    from dataclasses import replace

    control = two.control
    roles = control.named("AWS::IAM::Role", "RoleName")
    for region in two.installation.region_names if role.pod else [None]:
        found = roles["-".join(part for part in ("gpufleet", role.worker, region) if part)]
        (policy,) = found["Policies"]
        wanted = document(role, replace(two.names, own_region=region))
        group = f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/aws/lambda/gpufleet"
        mine = [f"{group}-{one.name}:*" for one in FUNCTIONS if one.role == role.worker]
        for statement in wanted["Statement"]:
            if statement["Resource"][0] in mine:
                statement["Resource"] = mine
        assert _told(control.resolve(policy["PolicyDocument"])) == _told(wanted)
        assert "ManagedPolicyArns" not in found
    assert not control.of("AWS::IAM::Policy")
    assert not control.of("AWS::IAM::ManagedPolicy")


def _told(policy):
    """Statements with lists where CDK writes the only entry of one by itself."""
    return [
        {key: _list(statement[key]) for key in ("Effect", "Action", "Resource")}
        | {"Condition": {name: {key: _list(one) for key, one in keys.items()} for name, keys in statement.get("Condition", {}).items()}}
        for statement in policy["Statement"]
    ]


def _list(value):
    return [value] if isinstance(value, str) else list(value)


def test_a_pod_is_its_service_account_on_its_cluster(two):
    found = two.control.named("AWS::IAM::Role", "RoleName")["gpufleet-dispatcher-eu-west-1"]
    (statement,) = two.control.resolve(found["AssumeRolePolicyDocument"])["Statement"]

    assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-arn": f"arn:aws:eks:eu-west-1:{ACCOUNT}:cluster/gpufleet",
        "aws:RequestTag/kubernetes-namespace": "gpufleet",
        "aws:RequestTag/kubernetes-service-account": "dispatcher",
    }


def test_every_route_asks_who_calls_but_those_that_tell_whether_it_is_alive(two):
    control = two.control
    routes = control.named("AWS::ApiGatewayV2::Route", "RouteKey")

    open_ones = {key for key, one in routes.items() if one["AuthorizationType"] == "NONE"}
    assert open_ones == {"GET /healthz", "GET /readyz", "GET /api/v1/health"}
    assert {one["AuthorizationType"] for key, one in routes.items() if key not in open_ones} == {"AWS_IAM"}
    prefixes = [prefix for one in FUNCTIONS for source in one.sources if isinstance(source, HttpApiSource) for prefix in source.prefixes]
    assert {"ANY /", "ANY /{proxy+}", *(f"ANY {one}/{{proxy+}}" for one in prefixes)} <= set(routes)
    assert {one["PayloadFormatVersion"] for one in control.of("AWS::ApiGatewayV2::Integration").values()} == {"2.0"}


def test_the_api_is_throttled_and_its_calls_are_logged_without_what_they_carry(two):
    stage = two.control.one("AWS::ApiGatewayV2::Stage")

    assert stage["StageName"] == "$default"
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 200, "ThrottlingBurstLimit": 400}
    assert {one["ThrottlingRateLimit"] for one in stage["RouteSettings"].values()} == {5}
    logged = json.loads(stage["AccessLogSettings"]["Format"])
    assert "$context.requestId" in logged.values()
    assert not [one for one in logged.values() if "header" in one.lower() or "body" in one.lower() or "query" in one.lower()]


def test_tokens_have_an_api_of_their_own_over_the_same_functions(five):
    control = five.control
    authorizer = control.one("AWS::ApiGatewayV2::Authorizer")
    routes = [control.resolve(one) for one in control.of("AWS::ApiGatewayV2::Route").values()]

    assert authorizer["JwtConfiguration"] == {"Audience": ["gpufleet"], "Issuer": "https://issuer.example"}
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"]
    by_api = {}
    for one in routes:
        by_api.setdefault(one["ApiId"], {})[one["RouteKey"]] = one["AuthorizationType"]
    iam, tokens = sorted(by_api.values(), key=lambda found: found["ANY /"])
    assert set(iam) == set(tokens)
    assert {key: "JWT" if kind == "AWS_IAM" else kind for key, kind in iam.items()} == tokens
    variables = control.named("AWS::Lambda::Function", "FunctionName")["gpufleet-api"]["Environment"]["Variables"]
    assert variables["GPUFLEET_IDENTITY"] == "iam,jwt"
    assert variables["GPUFLEET_READY_SHARDS"] == "4"
    assert variables["GPUFLEET_METRICS_ROLLUPS"] == "region,region+namespace"
    assert variables["GPUFLEET_PROMETHEUS_URL"] == "https://prometheus.example"


def test_what_others_need_is_told_as_outputs(two):
    outputs = two.control.document["Outputs"]

    assert {"TableName", "BucketName", "ApiUrl", "KeyArn", "QueueUrlSubmissions", "QueueUrlDispatchEuWest1"} <= set(outputs)
    described = {one.get("Description") for one in outputs.values()}
    assert set(settings(two).queues()) <= described
