"""Jobs in the table: how they are submitted, claimed, changed and found. Implements `shared.jobs.ports.JobStore`."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from shared.jobs.change import Change
from shared.jobs.model import Claim, Event, Execution, Head, ReadyEntry, Specification
from shared.jobs.ports import LostError
from shared.jobs.states import State
from shared.jobs.submission import Idempotency, KeyTakenError, Submitted
from shared.store import counters, items, keys
from shared.store.specifications import Specifications
from shared.store.table import ConditionFailedError, Table

IDEMPOTENCY_RETENTION = timedelta(days=30)
"""How long an idempotency key stands for its job; then the table's TTL removes the entry."""
_PAGE = 100
"""Heads that one batch read brings."""


class Jobs:
    """The repository of jobs."""

    def __init__(self, table: Table, specifications: Specifications, layout: keys.Layout) -> None:
        self._table = table
        self._specifications = specifications
        self._layout = layout

    async def submit(self, change: Change, specification: Specification, idempotency: Idempotency | None) -> Submitted:
        """Write a new job with its specification, first event, counter and idempotency entry, all or nothing.

        The same key with the same request gives the job that it stands for; with another request it raises KeyTakenError.
        """
        head = change.after
        spec_item = await self._specifications.prepare(specification)

        def actions(tries: int) -> list[items.Item]:
            found = self._actions(change, tries)
            found.append(self._put(spec_item))
            if idempotency is not None:
                entry = {
                    "pk": keys.idempotency(idempotency.scope, idempotency.key),
                    "sk": "IDEM",
                    "job_id": head.id,
                    "request_hash": idempotency.request_hash,
                    "expires": int((head.submitted_at + IDEMPOTENCY_RETENTION).timestamp()),
                }
                found.append(self._put(entry, fresh=True))
            return found

        try:
            await self._table.transact(actions)
        except ConditionFailedError as refused:
            return await self._winner(refused, head, idempotency)
        return Submitted(head=head, created=True)

    async def _winner(self, refused: ConditionFailedError, head: Head, idempotency: Idempotency | None) -> Submitted:
        standing = refused.items[0]
        if standing is not None and standing.get("stamp") == head.stamp:
            return Submitted(head=head, created=True)
        entry = refused.items[-1] if idempotency is not None and refused.failed[-1] else None
        if entry is None or idempotency is None:
            raise LostError(None)
        if entry["request_hash"] != idempotency.request_hash:
            raise KeyTakenError(idempotency.key, entry["job_id"])
        if entry["job_id"] == head.id:
            return Submitted(head=head, created=True)
        winner = await self.head(entry["job_id"])
        if winner is None:
            raise LostError(None)
        return Submitted(head=winner, created=False)

    async def head(self, job_id: str) -> Head | None:
        """The head as it stands."""
        item = await self._table.get({"pk": keys.job(job_id), "sk": keys.HEAD})
        return items.from_item(Head, item) if item else None

    async def heads(self, job_ids: Sequence[str]) -> dict[str, Head]:
        """Many heads, by job id."""
        wanted = [{"pk": keys.job(job_id), "sk": keys.HEAD} for job_id in dict.fromkeys(job_ids)]
        found = [items.from_item(Head, item) for item in await self._table.batch_get(wanted)]
        return {head.id: head for head in found}

    async def specifications(self, heads: Sequence[Head]) -> dict[str, Specification]:
        """The specification of each head's version, by job id."""
        return await self._specifications.read(list(heads))

    async def ready(self, region: str, limit: int) -> list[ReadyEntry]:
        """The best entries of a region's ready list, in order."""
        partitions = self._layout.ready_partitions(region)
        return [
            ReadyEntry(
                job_id=keys.job_id_of(item["pk"]),
                region=region,
                namespace=item["namespace"],
                fence=int(item["fence"]),
                priority=int(item["priority"]),
                order=item["ready_sk"],
            )
            for item in await self._first(keys.READY_INDEX, partitions, limit)
        ]

    async def claim(self, entry: ReadyEntry, claim: Claim) -> Head | None:
        """Claim a queued job, in one conditional write.

        It holds only while the job is queued, stands in the ready list, and has the fence that was read. When the answer to an earlier try
        was lost, the item that stands carries this claim's nonce, and the claim is ours.
        """
        values = {
            ":queued": State.QUEUED.value,
            ":claimed": State.CLAIMED.value,
            ":fence": entry.fence,
            ":next": entry.fence + 1,
            ":claim": items.to_item(claim),
            ":stamp": claim.nonce,
            ":due_pk": keys.due_partition(entry.region, keys.shard_of(entry.job_id, self._layout.due_shards)),
            ":due_sk": keys.due_order(claim.expires_at, entry.job_id),
            ":state_pk": keys.state_partition(entry.region, State.CLAIMED),
            ":namespace_pk": keys.namespace_partition(entry.namespace, State.CLAIMED),
        }
        try:
            item = await self._table.update(
                {"pk": keys.job(entry.job_id), "sk": keys.HEAD},
                UpdateExpression=_CLAIM,
                ConditionExpression="#state = :queued AND fence = :fence AND attribute_exists(ready_pk)",
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues=items.to_wire(values),
            )
        except ConditionFailedError as refused:
            standing = refused.items[0]
            if standing is None or standing.get("stamp") != claim.nonce:
                return None
            item = standing
        return items.from_item(Head, item)

    async def write(self, change: Change) -> Head:
        """Write a change: the head on condition that it is the one that was read, its events, its ended execution, its counters."""
        try:
            await self._table.transact(lambda tries: self._actions(change, tries))
        except ConditionFailedError as refused:
            item = refused.items[0]
            current = items.from_item(Head, item) if item else None
            if current is not None and current.stamp == change.after.stamp:
                return current
            raise LostError(current) from refused
        return change.after

    async def due(self, region: str, limit: int) -> list[tuple[datetime, str | None]]:
        """The earliest due marks of a region, in order; that of the region itself has no job id."""
        partitions = self._layout.due_partitions(region)
        found = await self._first(keys.DUE_INDEX, partitions, limit)
        return [(keys.due_time(item["due_sk"]), keys.job_id_of(item["pk"]) if keys.is_job(item["pk"]) else None) for item in found]

    async def _first(self, index: str, partitions: Sequence[str], limit: int) -> list[items.Item]:
        """The first entries of an index over some of its partitions: one query each, merged in order."""
        partition_key, sort_key = keys.INDEXES[index]
        pages = [
            (await self._table.query(index=index, key_condition=f"{partition_key} = :pk", values={":pk": partition}, limit=limit)).items
            for partition in partitions
        ]
        return list(islice(heapq.merge(*pages, key=lambda item: str(item[sort_key])), limit))

    async def in_state(self, region: str, state: State) -> AsyncIterator[list[Head]]:
        """All jobs of a region in one state, the oldest first, by pages of a hundred; one that has left it meanwhile is left out."""
        start: items.Item | None = None
        while True:
            page = await self._table.query(
                index=keys.STATE_INDEX,
                key_condition="state_pk = :pk",
                values={":pk": keys.state_partition(region, state)},
                limit=_PAGE,
                start=start,
            )
            heads = await self.heads([keys.job_id_of(item["pk"]) for item in page.items]) if page.items else {}
            yield [head for head in heads.values() if head.region == region and head.state is state]
            start = page.next_key
            if start is None:
                return

    async def active(self, region: str) -> list[Head]:
        """All jobs of a region that have a committed object on its cluster."""
        job_ids = [
            keys.job_id_of(item["pk"])
            for state in State
            if state.on_cluster
            async for item in self._table.query_all(
                index=keys.STATE_INDEX,
                key_condition="state_pk = :pk",
                values={":pk": keys.state_partition(region, state)},
            )
        ]
        return list((await self.heads(job_ids)).values())

    def _actions(self, change: Change, tries: int) -> list[items.Item]:
        """The actions of a change's transaction. The head comes first: its refusal tells the head as it stands."""
        head = change.after
        actions = [self._put_head(change)]
        actions += [self._put(self._part(event, keys.event(event.number)), fresh=True) for event in change.events]
        if change.ended is not None:
            actions.append(self._put(self._part(change.ended, keys.execution(change.ended.number))))
        shard = int(head.stamp[:4], 16) + tries
        return actions + counters.move(change.before, head, layout=self._layout, shard=shard, table=self._table.name)

    def _put_head(self, change: Change) -> items.Item:
        action = self._put(items.head_item(change.after, self._layout), fresh=change.before is None)
        if change.before is not None:
            action["Put"] |= guard(change.before)
        return action

    def _put(self, item: items.Item, *, fresh: bool = False) -> items.Item:
        put: items.Item = {
            "TableName": self._table.name,
            "Item": items.to_wire(item),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        if fresh:
            put["ConditionExpression"] = "attribute_not_exists(pk)"
        return {"Put": put}

    @staticmethod
    def _part(record: Event | Execution, sort_key: str) -> items.Item:
        return {"pk": keys.job(record.job_id), "sk": sort_key} | items.to_item(record)


_CLAIM = (
    "SET #state = :claimed, fence = :next, claim = :claim, stamp = :stamp, due_pk = :due_pk, due_sk = :due_sk, "
    "state_pk = :state_pk, namespace_pk = :namespace_pk REMOVE ready_pk, ready_sk"
)


def guard(read: Head) -> items.Item:
    """The condition of every change: nobody has claimed the job, and nothing has happened to it, since it was read."""
    return {
        "ConditionExpression": "fence = :fence AND revision = :revision AND #state = :state",
        "ExpressionAttributeNames": {"#state": "state"},
        "ExpressionAttributeValues": items.to_wire({":fence": read.fence, ":revision": read.revision, ":state": read.state.value}),
    }
