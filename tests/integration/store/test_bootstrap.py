"""Bootstrap on the emulator."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from shared.costs.model import Window
from shared.costs.report_keys import ReportKeys
from shared.costs.usage_documents import hour_prefix
from shared.costs.windows import LONGEST
from shared.settings import Settings, dead_letter_queue
from shared.store import keys
from shared.store.bootstrap import ShapeError, bootstrap
from shared.store.lifecycle import LIFECYCLE, SHORTEST_USAGE_DAYS, USAGE_DAYS, lifecycle

NOON = datetime(2026, 5, 18, 12, tzinfo=UTC)


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


async def rules_of(aws, settings):
    return (await aws.s3.get_bucket_lifecycle_configuration(Bucket=settings.bucket))["Rules"]


async def test_the_bucket_lets_go_of_usage_and_of_uploads_that_were_never_completed(fleet_resources):
    rules = {rule["ID"]: rule for rule in await rules_of(fleet_resources.aws, fleet_resources.settings)}

    assert rules["gpufleet-usage"]["Filter"]["Prefix"] == hour_prefix("r", NOON).split("/")[0] + "/"
    assert rules["gpufleet-usage"]["Expiration"]["Days"] == USAGE_DAYS
    assert rules["gpufleet-everything"]["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] == 7
    adhoc = ReportKeys(region="r", window=Window(NOON, NOON + timedelta(hours=1)), day=NOON.date(), nonce="0" * 8)
    kept = tuple(rule["Filter"]["Prefix"] for rule in rules.values() if "Expiration" in rule)
    assert all(key.startswith(kept) for key in (adhoc.allocation, adhoc.jobs, adhoc.summary))
    scheduled = ReportKeys.scheduled("r", adhoc.window)
    for key in (scheduled.allocation, scheduled.jobs, scheduled.summary, "logs/x", "specifications/x", "templates/x", "metrics/x"):
        assert not key.startswith(kept)


async def test_a_bucket_that_stands_gets_its_rules_and_keeps_those_of_others(aws, fleet_settings):
    await aws.s3.create_bucket(Bucket=fleet_settings.bucket)
    others = {"ID": "theirs", "Status": "Enabled", "Filter": {"Prefix": "theirs/"}, "Expiration": {"Days": 3}}
    old = {"ID": "gpufleet-usage", "Status": "Enabled", "Filter": {"Prefix": "usage/"}, "Expiration": {"Days": 5}}
    await aws.s3.put_bucket_lifecycle_configuration(Bucket=fleet_settings.bucket, LifecycleConfiguration={"Rules": [others, old]})

    await bootstrap(aws, fleet_settings)

    rules = {rule["ID"]: rule for rule in await rules_of(aws, fleet_settings)}
    assert rules.keys() == {"theirs", *(rule.id for rule in LIFECYCLE)}
    assert (rules["theirs"]["Expiration"]["Days"], rules["gpufleet-usage"]["Expiration"]["Days"]) == (3, USAGE_DAYS)
    await aws.s3.put_bucket_lifecycle_configuration(Bucket=fleet_settings.bucket, LifecycleConfiguration={"Rules": list(rules.values())})
    await bootstrap(aws, fleet_settings)
    assert {rule["ID"]: rule for rule in await rules_of(aws, fleet_settings)} == rules


def test_logs_of_jobs_are_kept_for_ever_unless_it_is_said_how_long():
    assert [one for one in LIFECYCLE if "logs/" in one.prefix and one.days is not None] == []
    assert [(one.prefix, one.days) for one in lifecycle(log_days=90) if one not in LIFECYCLE] == [("logs/", 90)]


def test_usage_is_kept_for_as_long_as_reports_are_made_of_it():
    longest = Settings.model_fields["costs_look_back_days"].metadata
    most = max(one.le for one in longest if hasattr(one, "le"))

    assert timedelta(days=SHORTEST_USAGE_DAYS) > timedelta(days=most) + LONGEST
    assert lifecycle(usage_days=400)[1].days == 400
    with pytest.raises(ValueError, match="39 days at least, not 38"):
        lifecycle(usage_days=38)
