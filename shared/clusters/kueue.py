"""Which Kueue queue a released object goes to: the one that its annotation asks for, or else the region's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from shared.clusters import names

_REMEMBERED: Final = 10_000


class Queues:
    """The queues of the objects that were seen last, so that a release needs to read an object only if another worker created it."""

    def __init__(self, default: str) -> None:
        self._default = default
        self._known: OrderedDict[str, str] = OrderedDict()

    def of(self, uid: str) -> str | None:
        """The queue of an object that was seen; None for one that wasn't."""
        return self._known.get(uid)

    def learn(self, job: Mapping[str, Any]) -> str:
        """Remember and return the queue of an object."""
        metadata = job["metadata"]
        queue = (metadata.get("annotations") or {}).get(names.QUEUE) or self._default
        self._known[metadata["uid"]] = queue
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return str(queue)
