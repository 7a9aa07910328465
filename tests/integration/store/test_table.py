"""What the table's client makes of what it is asked for."""

from __future__ import annotations

from shared.store.table import Table


async def test_a_key_that_comes_twice_is_read_once(fleet_resources):
    table = Table(fleet_resources.aws.dynamodb, fleet_resources.settings.table)
    items = [{"pk": "JOB#a", "sk": "HEAD", "n": 1}, {"pk": "JOB#b", "sk": "HEAD", "n": 2}]
    for item in items:
        await table.put(item)
    found = await table.batch_get([{"pk": item["pk"], "sk": item["sk"]} for item in (*items, *items)])
    assert sorted(found, key=lambda item: item["pk"]) == items
