"""Whether all that a table says of its jobs is one story: heads, indexes, counters, histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shared.jobs.states import State
from shared.store import counters, keys
from shared.store.counters import Counters
from shared.store.history import History
from workers.assembly import Core


async def check(core: Core, region: str, job_ids: Sequence[str]) -> None:
    """The jobs are all that there are in the region. Raises AssertionError."""
    heads = await core.store.heads(job_ids)
    assert set(heads) == set(job_ids)
    await _check_counters(core, region, [counters.counted_as(head) for head in heads.values()])
    expected = {job_id: keys.index_attributes(head, core.layout) for job_id, head in heads.items()}
    for index, (partition, order) in keys.INDEXES.items():
        wanted = {(attributes[partition], attributes[order], job_id) for job_id, attributes in expected.items() if partition in attributes}
        partitions = {key for key, _, _ in wanted} | _partitions(core, region, partition)
        found = [
            (item[partition], item[order], keys.job_id_of(item["pk"]))
            for key in partitions
            async for item in core.table.query_all(index=index, key_condition=f"{partition} = :pk", values={":pk": key})
        ]
        assert sorted(found) == sorted(wanted), index
    history = History(core.table)
    for head in heads.values():
        assert [event.number for event in await history.events(head.id)] == list(range(1, head.revision + 1))


async def _check_counters(core: Core, region: str, states: Sequence[str]) -> None:
    shards = [keys.counter(region, shard) for shard in range(core.layout.counter_shards)]
    total: Counter[str] = Counter()
    for item in await core.table.batch_get(shards):
        total.update({name: int(value) for name, value in item.items() if name not in {"pk", "sk"}})
    assert +total == Counter(states)
    told = (await Counters(core.table, core.layout).by_region([region]))[region]
    assert sum(told.values()) == len(states)


def _partitions(core: Core, region: str, attribute: str) -> set[str]:
    """Partitions in which nothing may stand that isn't expected there."""
    match attribute:
        case "ready_pk":
            return set(core.layout.ready_partitions(region))
        case "due_pk":
            return set(core.layout.due_partitions(region))
        case "state_pk":
            return {keys.state_partition(region, state) for state in State}
        case _:
            return {keys.namespace_partition("gco-jobs", state) for state in State}
