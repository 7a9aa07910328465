"""A restore as docs/operations.md tells it, on the emulator: its commands make a table of ours, and the control stack goes over to that."""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
from botocore import xform_name

from infra.functions import FUNCTIONS
from infra.outputs import CONTROL, for_people
from shared.store.bootstrap import EXPIRES, table_shape
from tests.infra.accounts import ACCOUNT
from tests.infra.deployed.assembly import Assembly, pruned
from tests.infra.deployed.deploying import deploy, prepare, update
from tests.infra.stacks.installations import installation

pytestmark = [
    pytest.mark.infra,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("aws_cdk") is None, reason="make infra-test installs what the stacks need"),
]
OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
REGION = "us-east-1"
OWN = "210987654321"
"""An account of its own, since the emulator is that of all tests; it takes from the key's id whose call one is."""
ITEM = {"pk": {"S": "JOB#1"}, "sk": {"S": "HEAD"}}


class Account:
    """What `deploying` needs of a fleet."""

    def __init__(self, endpoint):
        self.layout = SimpleNamespace(aws_endpoint=endpoint)

    def client(self, service, region=REGION):
        keys = {"aws_access_key_id": OWN, "aws_secret_access_key": "test"}
        return closing(boto3.client(service, region_name=region, endpoint_url=self.layout.aws_endpoint, **keys))


def run(client, words):
    """Do what `aws dynamodb` does with these words; the answer. Raises KeyError for what is no option of it."""
    name, *rest = words
    if name == "wait":
        return client.get_waiter(rest[0].replace("-", "_")).wait(TableName=rest[2])
    method, rest = name.replace("-", "_"), iter(rest)
    shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method]).input_shape
    known = {f"--{xform_name(member, '-')}": member for member in shape.members}
    asked = {}
    for word in rest:
        if word in {"--query", "--output"}:
            next(rest)
            continue
        of = shape.members[known[word]]
        asked[known[word]] = True if of.type_name == "boolean" else value_of(of, next(rest))
    return getattr(client, method)(**asked)


def value_of(shape, text):
    """What a word means for a parameter; `a=1,b=2` is a structure."""
    if shape.type_name == "structure":
        return {name: value_of(shape.members[name], value) for name, value in (part.split("=") for part in text.split(","))}
    return text == "true" if shape.type_name == "boolean" else text


def commands():
    """The guide's commands from the old table to the new one's stream."""
    text = OPERATIONS.read_text(encoding="utf-8")
    (name,) = re.findall(r"^ +TABLE=(\S+)$", text, re.MULTILINE)
    lines = re.findall(r"^ +aws dynamodb (.+?)(?: +#.*)?$", text.replace("$TABLE", name), re.MULTILINE)
    return name, [shlex.split(line) for line in lines]


@pytest.fixture
def restored(aws_endpoint, tmp_path):
    """The account after the guide's second and third step, and what there was before."""
    from tests.infra.stacks.assembly import Assemblies

    def template(name, found):
        assembly = Assembly(made.make(name, found).outdir, account=ACCOUNT)
        return assembly, pruned(assembly.template(CONTROL), {}).template

    made, account = Assemblies(tmp_path), Account(aws_endpoint)
    assembly, first = template("first", installation())
    prepare(account, assembly, {CONTROL: REGION})
    deploy(account, CONTROL, first, REGION)
    with account.client("lambda") as functions, account.client("dynamodb") as dynamodb:
        dynamodb.put_item(TableName="gpufleet", Item=ITEM)
        before = {one["UUID"]: one for one in functions.list_event_source_mappings()["EventSourceMappings"]}
        (ingest,) = [uuid for uuid, one in before.items() if one["FunctionArn"].endswith("gpufleet-ingest")]
        functions.update_event_source_mapping(UUID=ingest, Enabled=False)
        functions.put_function_concurrency(FunctionName="gpufleet-api", ReservedConcurrentExecutions=0)
        table, told = commands()
        for words in told:
            answer = run(dynamodb, words)
        stream = answer["Table"]["LatestStreamArn"]
        _, second = template("second", installation(table={"stream_arn": stream}))
        outputs = update(account, CONTROL, second, REGION)
        yield SimpleNamespace(
            dynamodb=dynamodb, functions=functions, table=table, stream=stream, outputs=outputs, before=before, ingest=ingest
        )


def test_the_fleet_goes_over_to_a_table_that_the_guide_s_commands_have_made(restored):
    dynamodb, functions = restored.dynamodb, restored.functions
    found, wanted = dynamodb.describe_table(TableName=restored.table)["Table"], table_shape(restored.table)

    assert found["StreamSpecification"] == wanted["StreamSpecification"]
    assert found["DeletionProtectionEnabled"] is True
    assert {one["IndexName"] for one in found["GlobalSecondaryIndexes"]} == {one["IndexName"] for one in wanted["GlobalSecondaryIndexes"]}
    expiry = dynamodb.describe_time_to_live(TableName=restored.table)["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": EXPIRES}
    kept = dynamodb.describe_continuous_backups(TableName=restored.table)["ContinuousBackupsDescription"]
    assert kept["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"

    # The old one is left as it was.
    assert dynamodb.get_item(TableName="gpufleet", Key=ITEM)["Item"] == ITEM

    mappings = {one["UUID"]: one for one in functions.list_event_source_mappings()["EventSourceMappings"]}
    (relay,) = [one for uuid, one in mappings.items() if uuid not in restored.before]
    assert (relay["EventSourceArn"], relay["State"]) == (restored.stream, "Enabled")
    assert relay["FunctionArn"].endswith("gpufleet-webhooks-relay")
    assert len(mappings) == len(restored.before)
    # What was stopped stays so.
    assert mappings[restored.ingest]["State"] == "Disabled"
    assert functions.get_function_concurrency(FunctionName="gpufleet-api")["ReservedConcurrentExecutions"] == 0

    for function in FUNCTIONS:
        variables = functions.get_function_configuration(FunctionName=f"gpufleet-{function.name}")["Environment"]["Variables"]
        assert (variables["GPUFLEET_TABLE"], variables["GPUFLEET_SECRETS_PREFIX"]) == (restored.table, "gpufleet")
    people = for_people(restored.outputs)
    assert people["GPUFLEET_TABLE"] == restored.table
    assert people["GPUFLEET_EKS_CLUSTERS"] == "us-east-1=gpufleet,eu-west-1=gpufleet"
