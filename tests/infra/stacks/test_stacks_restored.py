"""A table that is there already, restored to a point in time: the stacks go over to it, and may import it."""

from __future__ import annotations

import json

import pytest

from infra.functions import FUNCTIONS, StreamSource
from tests.infra.stacks.installations import RESTORED, RESTORED_STREAM

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]
TABLE = "AWS::DynamoDB::Table"
MAPPING = "AWS::Lambda::EventSourceMapping"


@pytest.fixture
def before(two):
    """The template of an installation whose table the stack has made."""
    return two.control


@pytest.fixture
def restored(assemblies):
    """Its template with the restored table."""
    return assemblies["restored"].control


@pytest.fixture
def imported(assemblies):
    """The same, with the table in the stack."""
    return assemblies["imported"].control


def test_the_table_that_the_stack_has_made_leaves_it_and_stays(before, restored):
    (gone,) = before.resources.keys() - restored.resources.keys()

    assert before.resources[gone]["Type"] == TABLE
    assert before.resources[gone]["DeletionPolicy"] == "Retain"
    assert restored.resources.keys() <= before.resources.keys()
    assert gone not in json.dumps(restored.document)


def test_every_function_works_on_the_restored_table(restored):
    environments = [one["Environment"]["Variables"] for one in restored.named("AWS::Lambda::Function", "FunctionName").values()]

    assert len(environments) == len(FUNCTIONS)
    assert {one["GPUFLEET_TABLE"] for one in environments} == {RESTORED}
    # What was made under the other name stays under it.
    assert {one["GPUFLEET_SECRETS_PREFIX"] for one in environments} == {"gpufleet"}
    assert {one["GPUFLEET_QUEUE_PREFIX"] for one in environments} == {"gpufleet"}


def test_the_relay_reads_the_restored_tables_stream(before, restored):
    relay = [name for name, one in restored.of(MAPPING).items() if "StartingPosition" in one]
    assert len(relay) == len([one for one in FUNCTIONS for source in one.sources if isinstance(source, StreamSource)])

    assert [restored.of(MAPPING)[name]["EventSourceArn"] for name in relay] == [RESTORED_STREAM]
    # CloudFormation makes a mapping anew for another source; those of queues it leaves as they are, disabled perhaps.
    changed = {name for name, one in before.of(MAPPING).items() if one != restored.of(MAPPING)[name]}
    assert changed == set(relay)


def test_rights_are_to_the_restored_table_and_to_the_secrets_that_were_there(restored):
    resources = json.dumps([restored.resolve(one["Resource"]) for _, one in restored.statements() if "Resource" in one])

    assert f":table/{RESTORED}" in resources
    assert ':table/gpufleet"' not in resources
    assert ":table/gpufleet/" not in resources
    assert ":secret:gpufleet/*" in resources
    assert f":secret:{RESTORED}" not in resources


def test_pods_alarms_and_outputs_name_the_restored_table(assemblies, restored):
    outputs = {name: restored.resolve(one["Value"]) for name, one in restored.document["Outputs"].items()}
    assert (outputs["TableName"], outputs["TableStreamArn"], outputs["SecretsPrefix"]) == (RESTORED, RESTORED_STREAM, "gpufleet")

    region = assemblies["restored"].template("us-east-1")
    manifests = json.dumps([region.resolve(one) for one in region.of("Custom::AWSCDK-EKS-KubernetesResource").values()])
    assert RESTORED in manifests
    alarms = json.dumps(assemblies["restored"].monitoring.of("AWS::CloudWatch::Alarm"))
    assert f'{{"Name": "TableName", "Value": "{RESTORED}"}}' in alarms
    assert '{"Name": "TableName", "Value": "gpufleet"}' not in alarms


def test_an_import_adds_the_table_and_changes_nothing_else(before, restored, imported):
    (added,) = imported.resources.keys() - restored.resources.keys()

    table = imported.resources[added]
    assert (table["Type"], table["Properties"]["TableName"], table["DeletionPolicy"]) == (TABLE, RESTORED, "Retain")
    wanted = before.one(TABLE)
    assert {**table["Properties"], "TableName": wanted["TableName"]} == wanted
    assert {name: one for name, one in imported.resources.items() if name != added} == restored.resources
    assert {key: one for key, one in imported.document.items() if key != "Resources"} == {
        key: one for key, one in restored.document.items() if key != "Resources"
    }


def test_logs_of_jobs_are_kept_as_long_as_the_settings_say(before, restored):
    def of(template):
        rules = [rule for one in template.of("AWS::S3::Bucket").values() for rule in one["LifecycleConfiguration"]["Rules"]]
        return [rule["ExpirationInDays"] for rule in rules if rule.get("Prefix") == "logs/"]

    assert (of(before), of(restored)) == ([], [90])
