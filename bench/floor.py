"""The floor: the same calls on the wire, made by as little Python as can make them.

What a dispatcher does with a job is bounded by its calls: look, claim, read the specification, create, commit, release. The floor makes
those calls with the same clients (aiobotocore, the cluster's own transport), the same conditions, items and bodies of the same size, and
the same concurrency; between them it does nothing but put keys and values into dictionaries that were made before. It has no model, no
checks, no retries, no states, no rendering and no logging. So the ratio to it says what all of that costs.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

from bench.filling import heads, specification
from bench.stage import NAMESPACE, REGION, Fleet
from shared.clusters import names
from shared.clusters.api import JSON_PATCH, KubernetesApi
from shared.clusters.bundles import Bundles
from shared.clusters.cluster import CREATE_QUERY
from shared.clusters.kinds import JOB

Wire = dict[str, Any]
_CLAIM = (
    "SET #state = :claimed, fence = :next, claim = :claim, stamp = :stamp, due_pk = :due_pk, due_sk = :due_sk, "
    "state_pk = :state_pk, namespace_pk = :namespace_pk REMOVE ready_pk, ready_sk"
)
_AT = "2030-01-01T00:00:00.000000Z"
_UNINDEXED = ("due_pk", "due_sk", "ring_at")


class Floor:
    """The calls of one job, one method each."""

    def __init__(self, fleet: Fleet, api: KubernetesApi) -> None:
        self._dynamodb = fleet.clients.dynamodb
        self._api = api
        self._table = fleet.settings.table
        self._fresh = heads(1_000_000)
        example = next(self._fresh)
        self._job: Mapping[str, Any] = Bundles().bundle(example, specification(example)).job
        self._number = 0

    async def look(self, limit: int) -> list[Wire]:
        """The best of the ready list."""
        answer = await self._dynamodb.query(
            TableName=self._table,
            IndexName="ready",
            KeyConditionExpression="ready_pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"READY#{REGION}#0"}},
            ScanIndexForward=True,
            ConsistentRead=False,
            Limit=limit,
        )
        found: list[Wire] = answer["Items"]
        return found

    async def claim(self, entry: Wire) -> Wire:
        """The conditional update; the head as it then is."""
        fence = int(entry["fence"]["N"])
        claim = {"owner": {"S": "floor"}, "nonce": {"S": "0123456789abcdef"}, "claimed_at": {"S": _AT}, "expires_at": {"S": _AT}}
        answer = await self._dynamodb.update_item(
            TableName=self._table,
            Key={"pk": entry["pk"], "sk": {"S": "HEAD"}},
            UpdateExpression=_CLAIM,
            ConditionExpression="#state = :queued AND fence = :fence AND attribute_exists(ready_pk)",
            ExpressionAttributeNames={"#state": "state"},
            ExpressionAttributeValues={
                ":queued": {"S": "queued"},
                ":claimed": {"S": "claimed"},
                ":fence": {"N": str(fence)},
                ":next": {"N": str(fence + 1)},
                ":claim": {"M": claim},
                ":stamp": {"S": "0123456789abcdef"},
                ":due_pk": {"S": f"DUE#{REGION}#0"},
                ":due_sk": {"S": f"20300101T000000.000000Z#{entry['pk']['S']}"},
                ":state_pk": {"S": f"STATE#{REGION}#claimed"},
                ":namespace_pk": {"S": f"NAMESPACE#{NAMESPACE}#claimed"},
            },
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        head: Wire = answer["Attributes"]
        return head

    async def specifications(self, claimed: list[Wire]) -> list[Wire]:
        """The manifests of claimed jobs, in one read."""
        keys = [{"pk": head["pk"], "sk": {"S": "SPEC#000001"}} for head in claimed]
        answer = await self._dynamodb.batch_get_item(RequestItems={self._table: {"Keys": keys, "ConsistentRead": True}})
        found: list[Wire] = answer["Responses"][self._table]
        return found

    async def create(self, head: Wire) -> tuple[str, str]:
        """The suspended Job; its name and UID."""
        self._number += 1
        name = f"train-{head['pk']['S'][-12:]}-{self._number}"
        metadata = copy.copy(self._job["metadata"])
        metadata["name"] = name
        metadata["annotations"] = metadata["annotations"] | {names.JOB_ID: head["id"]["S"]}
        body = {**self._job, "metadata": metadata}
        made = await self._api.request("POST", JOB.path(NAMESPACE), query=CREATE_QUERY, body=body)
        return name, made["metadata"]["uid"]

    async def commit(self, head: Wire, name: str, uid: str) -> None:
        """The transaction: the head, two events, and the counter."""
        revision = int(head["revision"]["N"])
        guard = {":fence": head["fence"], ":revision": head["revision"], ":state": {"S": "claimed"}}
        item = {key: value for key, value in head.items() if key not in _UNINDEXED} | {
            "state": {"S": "pending"},
            "revision": {"N": str(revision + 2)},
            "object": {"M": {"name": {"S": name}, "uid": {"S": uid}}},
            "committed_at": {"S": _AT},
            "updated_at": {"S": _AT},
            "state_pk": {"S": f"STATE#{REGION}#pending"},
            "namespace_pk": {"S": f"NAMESPACE#{NAMESPACE}#pending"},
        }
        put = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": "fence = :fence AND revision = :revision AND #state = :state",
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": guard,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        events = [self._event(head, revision + number, kind, f"{name} ({uid})") for number, kind in ((1, "claimed"), (2, "committed"))]
        await self._dynamodb.transact_write_items(TransactItems=[{"Put": put}, *events, self._count(uid)])

    async def release(self, name: str, uid: str) -> None:
        """The patch that only the first one can make."""
        annotation = f"/metadata/annotations/{names.RELEASED.replace('/', '~1')}"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": annotation, "value": "no"},
            {"op": "replace", "path": annotation, "value": _AT},
            {"op": "replace", "path": "/spec/suspend", "value": False},
        ]
        path = JOB.path(NAMESPACE, name)
        await self._api.request("PATCH", path, query={"fieldManager": "gpufleet"}, body=patch, content_type=JSON_PATCH)

    async def apply(self, head: Wire) -> None:
        """One claimed job, from its creation to its release."""
        name, uid = await self.create(head)
        await self.commit(head, name, uid)
        await self.release(name, uid)

    async def dispatch(self, jobs: int, slots: int) -> None:
        """So many jobs with so many slots: like a dispatcher, it looks again when a quarter of the slots is free."""
        free = asyncio.Condition()
        room = slots
        left = jobs

        async def one(head: Wire) -> None:
            nonlocal room
            await self.apply(head)
            async with free:
                room += 1
                free.notify()

        def enough() -> bool:
            return room >= max(1, slots // 4)

        async with asyncio.TaskGroup() as group:

            async def batch(claimed: list[Wire]) -> None:
                await self.specifications(claimed)
                for head in claimed:
                    group.create_task(one(head))

            while left:
                async with free:
                    await free.wait_for(enough)
                    limit = room
                claimed = await asyncio.gather(*(self.claim(entry) for entry in await self.look(limit)))
                left -= len(claimed)
                room -= len(claimed)
                group.create_task(batch(list(claimed)))

    def _event(self, head: Wire, number: int, kind: str, message: str) -> Wire:
        item = {
            "pk": head["pk"],
            "sk": {"S": f"EVENT#{number:08d}"},
            "job_id": head["id"],
            "number": {"N": str(number)},
            "type": {"S": kind},
            "at": {"S": _AT},
            "state": {"S": "pending"},
            "execution": {"N": "1"},
            "by": {"S": "floor"},
            "message": {"S": message},
        }
        return {"Put": {"TableName": self._table, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}

    def _count(self, uid: str) -> Wire:
        return {
            "Update": {
                "TableName": self._table,
                "Key": {"pk": {"S": f"COUNT#{REGION}#{int(uid[:4], 16) % 16}"}, "sk": {"S": "COUNT"}},
                "UpdateExpression": "ADD #to :one, #from :less",
                "ExpressionAttributeNames": {"#to": "pending", "#from": "queued"},
                "ExpressionAttributeValues": {":one": {"N": "1"}, ":less": {"N": "-1"}},
            }
        }
