"""DynamoDB as the emulator understands it, in this process, behind a client with aiobotocore's method names.

The emulator's own request handler decides everything: expressions, conditions, transactions, indexes. Only the wire is left out.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from ministack.services import dynamodb as emulator

from shared.store import keys
from shared.store.bootstrap import table_shape
from tests.simulation.faults import COMMON, Fault, Gate

TABLE = "fleet"
OLDEST_INDEX_SECONDS = 20.0
"""How far back a stale answer of an index reaches; the real ones are behind by less than a second, nearly always."""
_WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}


class Tables:
    """The service: one table, fresh for each run. `on_write` is called after every write with the keys that it touched."""

    def __init__(self) -> None:
        emulator.reset()
        self.request("CreateTable", table_shape(TABLE))
        self.on_write: Callable[[list[tuple[str, str]]], None] = lambda touched: None

    def request(self, operation: str, request: dict[str, Any]) -> Any:
        """Do it, now. Raises botocore's ClientError as the real client would."""
        body = json.dumps(request, default=_encode_bytes).encode()
        handling = emulator.handle_request("POST", "/", {"x-amz-target": f"DynamoDB_20120810.{operation}"}, body, {})
        try:
            handling.send(None)
        except StopIteration as done:
            status, _, answer = done.value
        else:
            raise AssertionError("the emulator's handler was expected not to wait")
        parsed = json.loads(answer, object_hook=_decode_bytes)
        if status != 200:
            raise _client_error(operation, status, parsed)
        if operation in _WRITES:
            self.on_write(_touched(request))
        return parsed

    @staticmethod
    def items(pk: str) -> dict[str, Any]:
        """All items of one partition by sort key, as they stand: for those who check, not for those who are checked."""
        table = emulator._tables.get(TABLE)
        return dict(table["items"].get(pk, {}))

    @staticmethod
    def partitions() -> list[str]:
        """All partition keys."""
        return list(emulator._tables.get(TABLE)["items"])


class DynamoDBClient:
    """What the store calls: one method for each operation, with the faults of the way to it."""

    def __init__(self, tables: Tables, gate: Gate, chance: random.Random) -> None:
        self._tables = tables
        self._gate = gate
        self._chance = chance
        self._seen: dict[str, tuple[float, Any]] = {}

    async def get_item(self, **request: Any) -> Any:
        """GetItem."""
        return await self._call("GetItem", request, COMMON)

    async def batch_get_item(self, **request: Any) -> Any:
        """BatchGetItem."""
        return await self._call("BatchGetItem", request, COMMON)

    async def put_item(self, **request: Any) -> Any:
        """PutItem."""
        return await self._call("PutItem", request, (*COMMON, Fault.REPEATED))

    async def update_item(self, **request: Any) -> Any:
        """UpdateItem."""
        return await self._call("UpdateItem", request, (*COMMON, Fault.REPEATED))

    async def delete_item(self, **request: Any) -> Any:
        """DeleteItem."""
        return await self._call("DeleteItem", request, (*COMMON, Fault.REPEATED))

    async def transact_write_items(self, **request: Any) -> Any:
        """TransactWriteItems, with the token that botocore puts into each of them."""
        request.setdefault("ClientRequestToken", f"{self._chance.getrandbits(128):032x}")
        return await self._call("TransactWriteItems", request, (*COMMON, Fault.REPEATED, Fault.BUSY))

    async def query(self, **request: Any) -> Any:
        """Query. A secondary index is only consistent in the end: its answer may be the one that it gave before."""
        if "IndexName" not in request:
            return await self._call("Query", request, COMMON)
        about = json.dumps(request, sort_keys=True)
        now = self._gate.life.process.loop.time()
        seen_at, answer = self._seen.get(about, (-OLDEST_INDEX_SECONDS, None))
        if now - seen_at < OLDEST_INDEX_SECONDS and self._gate.faults.happens(Fault.STALE):
            self._gate.faults.tell(self._gate.life.name, Fault.STALE, request["IndexName"])
            return answer
        answer = await self._call("Query", request, COMMON)
        self._seen[about] = (now, answer)
        return answer

    async def _call(self, operation: str, request: dict[str, Any], possible: tuple[Fault, ...]) -> Any:
        def failure(fault: Fault) -> BaseException:
            return self._failure(operation, request, fault)

        return await self._gate.call(
            f"{operation} {_about(operation, request)}",
            lambda: self._tables.request(operation, request),
            possible=possible,
            failure=failure,
        )

    def _failure(self, operation: str, request: dict[str, Any], fault: Fault) -> BaseException:
        if fault is Fault.BUSY:
            reasons = [{"Code": "None"} for _ in request["TransactItems"]]
            reasons[-1] = {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}
            return _client_error(operation, 400, {"__type": "TransactionCanceledException", "CancellationReasons": reasons})
        if fault is Fault.REFUSED:
            code = self._chance.choice(("ThrottlingException", "InternalServerError", ""))
            if code:
                return _client_error(operation, 400 if code == "ThrottlingException" else 500, {"__type": code, "message": "injected"})
            return EndpointConnectionError(endpoint_url="https://dynamodb")
        return ReadTimeoutError(endpoint_url="https://dynamodb")


def _encode_bytes(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()


def _decode_bytes(value: dict[str, Any]) -> dict[str, Any]:
    if len(value) == 1 and isinstance(value.get("B"), str):
        return {"B": base64.b64decode(value["B"])}
    return value


def _client_error(operation: str, status: int, body: dict[str, Any]) -> ClientError:
    code = body.get("__type", "").rpartition("#")[2]
    response: Any = {
        "Error": {"Code": code, "Message": body.get("message", "")},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    response |= {name: body[name] for name in ("Item", "CancellationReasons") if name in body}
    return ClientError(response, operation)


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def _touched(request: dict[str, Any]) -> list[tuple[str, str]]:
    actions = [next(iter(action.values())) for action in request["TransactItems"]] if "TransactItems" in request else [request]
    return [_key(action.get("Item") or action["Key"]) for action in actions]


def _about(operation: str, request: dict[str, Any]) -> str:
    """What a request is about, for the trace."""
    if operation == "Query":
        return f"{request.get('IndexName', '')} {next(iter(request['ExpressionAttributeValues'].values()))['S']}"
    if operation == "BatchGetItem":
        return " ".join(f"{key['pk']['S']}/{key['sk']['S']}" for key in request["RequestItems"][TABLE]["Keys"])
    if operation in _WRITES:
        texts = [f"{pk}/{sk}" for pk, sk in _touched(request)]
        items = [next(iter(action.values())).get("Item", {}) for action in request.get("TransactItems", [])] or [request.get("Item", {})]
        head = next((item for item in items if item.get("sk", {}).get("S") == keys.HEAD), None)
        state = f" [{head['state']['S']} r{head['revision']['N']} f{head['fence']['N']} x{head['execution']['N']}]" if head else ""
        return " ".join(texts) + state
    return f"{request['Key']['pk']['S']}/{request['Key']['sk']['S']}"
