"""The beats of workers' loops: one item a process, overwritten by itself, gone a day after the last."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from shared.health.beats import Beat
from shared.store import items, keys
from shared.store.table import Table

RETENTION: Final = timedelta(days=1)
_MOST: Final = 1000


class Beats:
    """The repository of beats. Every method may raise UnavailableError."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def put(self, beat: Beat) -> None:
        """Replace what was told of this loop."""
        expires = int((beat.at + RETENTION).timestamp())
        await self._table.put(keys.beat(beat.worker, beat.region, beat.owner) | items.to_item(beat) | {"expires": expires})

    async def latest(self) -> list[Beat]:
        """What was last told of each loop that has not ended: one query."""
        return [beat for beat in await self.all() if not beat.ended]

    async def all(self) -> list[Beat]:
        """What was last told of each loop within a day, of those that have ended too, at most a thousand: one query."""
        page = await self._table.query(key_condition="pk = :pk", values={":pk": keys.BEATS}, limit=_MOST)
        return [items.from_item(Beat, item) for item in page.items]
