"""Bootstrap on the emulator."""

from __future__ import annotations

import asyncio

import pytest

from shared.settings import dead_letter_queue
from shared.store import keys
from shared.store.bootstrap import ShapeError, bootstrap


async def test_a_second_run_makes_nothing(aws, fleet_settings):
    first = await bootstrap(aws, fleet_settings)
    second = await bootstrap(aws, fleet_settings)

    assert first.stood == []
    assert second.made == []
    assert sorted(second.stood) == sorted(first.made)
    assert len(first.made) == 2 + 2 * len(fleet_settings.queues())


async def test_two_runs_at_once_both_end_well(aws, fleet_settings):
    one, other = await asyncio.gather(bootstrap(aws, fleet_settings), bootstrap(aws, fleet_settings))

    assert sorted({*one.made, *one.stood}) == sorted({*other.made, *other.stood})
    assert f"table {fleet_settings.table}" in one.made + other.made


async def test_the_table_has_its_indexes_and_expiry(fleet_resources):
    name = fleet_resources.settings.table
    described = (await fleet_resources.aws.dynamodb.describe_table(TableName=name))["Table"]
    expiry = (await fleet_resources.aws.dynamodb.describe_time_to_live(TableName=name))["TimeToLiveDescription"]

    assert {index["IndexName"] for index in described["GlobalSecondaryIndexes"]} == set(keys.INDEXES)
    assert expiry["AttributeName"] == "expires"


async def test_queues_give_up_after_five_receives(fleet_resources):
    sqs, name = fleet_resources.aws.sqs, fleet_resources.settings.submissions_queue
    url = (await sqs.get_queue_url(QueueName=name))["QueueUrl"]
    attributes = (await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"]))["Attributes"]

    assert '"maxReceiveCount": 5' in attributes["RedrivePolicy"]
    assert dead_letter_queue(name) in attributes["RedrivePolicy"]
    assert attributes["ReceiveMessageWaitTimeSeconds"] == "20"


async def test_a_table_without_an_index_is_named(aws, fleet_settings):
    await aws.dynamodb.create_table(
        TableName=fleet_settings.table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )

    with pytest.raises(ShapeError, match=f"{fleet_settings.table}: the index ready .* is missing"):
        await bootstrap(aws, fleet_settings)


async def test_a_queue_without_dead_letters_is_named(aws, fleet_settings):
    await aws.sqs.create_queue(QueueName=fleet_settings.submissions_queue)

    with pytest.raises(ShapeError, match=f"{fleet_settings.submissions_queue}: its dead letters go to nowhere"):
        await bootstrap(aws, fleet_settings)
