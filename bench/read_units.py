"""Read units, worked out from what DynamoDB sends, since the emulator says 0.5 for a query of any length and nothing for a batch.

By the rules of https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html: a query is charged for all
that it evaluated together, rounded up to 4 KB, and half of it unless it is consistent; a batch read for each item on its own. Our queries
have no filter, so what they evaluated is what they returned.
"""

from __future__ import annotations

import math
from typing import Any

_PAGE = 4096


class MeasuredReads:
    """A DynamoDB client that passes queries and batch reads on, and adds up their requests and units."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.requests = 0
        self.units = 0.0

    async def query(self, **request: Any) -> Any:
        """Charged as a whole."""
        if "FilterExpression" in request:
            raise ValueError("a query with a filter is charged for more than it returns")
        answer = await self._client.query(**request)
        self.requests += 1
        self.units += _units(sum(size(item) for item in answer["Items"]), consistent=request.get("ConsistentRead", False))
        return answer

    async def batch_get_item(self, **request: Any) -> Any:
        """Charged item by item, a missing one as an empty one."""
        answer = await self._client.batch_get_item(**request)
        self.requests += 1
        for table, keys in request["RequestItems"].items():
            found = answer["Responses"].get(table, [])
            sizes = [size(item) for item in found] + [0] * (len(keys["Keys"]) - len(found))
            self.units += sum(_units(one, consistent=keys.get("ConsistentRead", False)) for one in sizes)
        return answer


def size(item: dict[str, Any]) -> int:
    """Bytes of an item of typed values."""
    return sum(len(name.encode()) + _value(value) for name, value in item.items())


def _value(typed: dict[str, Any]) -> int:
    ((kind, value),) = typed.items()
    match kind:
        case "S":
            return len(value.encode())
        case "N":
            return math.ceil(len(value.lstrip("-").replace(".", "")) / 2) + 1
        case "B":
            return len(value)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value(one) for name, one in value.items())
        case "L":
            return 3 + sum(1 + _value(one) for one in value)
        case _:
            return 1


def _units(found: int, *, consistent: bool) -> float:
    return max(1, math.ceil(found / _PAGE)) * (1.0 if consistent else 0.5)
