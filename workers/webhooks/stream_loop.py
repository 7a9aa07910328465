"""Reads the table's stream and passes on what it tells. Each shard is read by one process at a time, which has a lease on it.

Two that read the same shard for a moment do no harm: the messages are the same, and each delivery is made once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import FleetError, UnavailableError
from shared.store.streams import MAX_RECORDS, RETENTION, Checkpoint, Checkpoints, ExpiredError, TableStream, Told, TrimmedError
from shared.store.table import Table
from workers.webhooks.relay import Relay

log = structlog.get_logger()

LEASE: Final = timedelta(seconds=20)
"""How long a shard stays with one who doesn't say anything any more. Three times as often it is written how far it has been read:
13,000 small writes a day and shard."""
LOOK_SECONDS: Final = 10.0
"""How often new shards, and those that nobody reads any more, are looked for."""
IDLE_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 0.25
"""Between two reads of a shard: where nobody was to be told of anything, and where somebody was. DynamoDB takes five a second and shard."""
_MAX_PAUSE: Final = 10.0


class StreamLoop:
    """Reads all shards that nobody else reads, until it is stopped."""

    def __init__(self, *, stream: TableStream, table: Table, relay: Relay, owner: str, clock: Clock, lease: timedelta = LEASE) -> None:
        self._stream = stream
        self._table = table
        self._relay = relay
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._readers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._look = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set."""
        try:
            while not stop.is_set():
                self._look.clear()
                try:
                    await self._take_shards(stop)
                except FleetError as error:
                    log.warning("shards of the stream not looked at", error=str(error))
                await _first(stop, self._look, seconds=min(LOOK_SECONDS, self._lease.total_seconds() / 2))
            await asyncio.gather(*self._readers.values(), return_exceptions=True)
        finally:
            for reader in self._readers.values():
                reader.cancel()
            await asyncio.gather(*self._readers.values(), return_exceptions=True)

    async def _take_shards(self, stop: asyncio.Event) -> None:
        arn = await self._stream.arn()
        checkpoints = Checkpoints(self._table, arn.rpartition("/")[2])
        standing = await checkpoints.all()
        now = self._clock.now()
        for shard in await self._stream.shards(arn):
            known = standing.get(shard)
            taken = known is not None and (known.closed or (known.owner != self._owner and known.until > now))
            if taken or (arn, shard) in self._readers:
                continue
            checkpoint = await checkpoints.take(shard, owner=self._owner, now=now, until=now + self._lease)
            if checkpoint is not None:
                reader = _ShardReader(self._stream, arn, checkpoints, checkpoint, self._relay, self._clock, self._lease)
                task = asyncio.create_task(self._read(reader, arn, shard, stop))
                self._readers[arn, shard] = task

    async def _read(self, reader: _ShardReader, arn: str, shard: str, stop: asyncio.Event) -> None:
        try:
            if await reader.run(stop):
                self._look.set()  # a closed shard has others behind it
        except FleetError as error:
            log.warning("shard given up for now", shard=shard, error=str(error))
        except Exception:
            log.exception("reading a shard failed", shard=shard)
        finally:
            self._readers.pop((arn, shard), None)


class _ShardReader:
    """Reads one shard for as long as it has the lease on it."""

    def __init__(
        self,
        stream: TableStream,
        arn: str,
        checkpoints: Checkpoints,
        checkpoint: Checkpoint,
        relay: Relay,
        clock: Clock,
        lease: timedelta,
    ) -> None:
        self._stream = stream
        self._arn = arn
        self._checkpoints = checkpoints
        self._checkpoint = checkpoint
        self._relay = relay
        self._clock = clock
        self._lease = lease
        self._kept_at = clock.now()

    async def run(self, stop: asyncio.Event) -> bool:
        """Read until stopped, until it is somebody else's, or to the end of a shard that is closed: then True."""
        self._tell_of_loss()
        log.info("reading", shard=self._checkpoint.shard, after=self._checkpoint.sequence)
        iterator: str | None = None
        while not stop.is_set():
            begun = self._clock.now()
            iterator = iterator or await self._iterator()
            try:
                batch = await self._stream.read(iterator)
            except (ExpiredError, TrimmedError):
                iterator = None
                continue
            sent = await self._pass_on(batch.records, stop)
            if sent is None:
                return False
            whole = len(batch.records) < MAX_RECORDS
            sequence = batch.records[-1].sequence if batch.records else self._checkpoint.sequence
            self._advance(sequence=sequence, seen_at=begun if whole else self._checkpoint.seen_at, closed=batch.iterator is None)
            due = batch.iterator is None or self._clock.now() - self._kept_at >= self._lease / 3
            if due and not await self._keep():
                return False
            if batch.iterator is None:
                return True
            iterator = batch.iterator
            await _first(stop, seconds=(BUSY_SECONDS if sent else IDLE_SECONDS) if whole else 0.0)
        self._checkpoint = self._checkpoint.model_copy(update={"until": self._clock.now()})
        await self._checkpoints.keep(self._checkpoint)
        return False

    async def _iterator(self) -> str:
        try:
            return await self._stream.iterator(self._arn, self._checkpoint.shard, after=self._checkpoint.sequence)
        except TrimmedError:
            self._tell_of_loss()
            return await self._stream.iterator(self._arn, self._checkpoint.shard, after=None)

    def _tell_of_loss(self) -> None:
        """What happened while nobody read for more than a day is no longer in the stream, and is told to nobody."""
        seen_at = self._checkpoint.seen_at
        lost = self._clock.now() - seen_at - RETENTION if seen_at is not None else timedelta()
        if lost > timedelta():
            log.error("events lost to webhooks", shard=self._checkpoint.shard, since=str(seen_at), lost_seconds=int(lost.total_seconds()))

    async def _pass_on(self, records: Sequence[Told], stop: asyncio.Event) -> int | None:
        """Pass on what is told, trying again for as long as it takes; how much that was, None where the shard is left to somebody else."""
        events = [record.event for record in records if record.event is not None]
        pause = 0.2
        while True:
            try:
                return await self._relay.pass_on(events)
            except UnavailableError as error:
                log.warning("events not passed on yet", count=len(events), error=str(error))
                await _first(stop, seconds=pause)
                pause = min(pause * 2, _MAX_PAUSE)
                if stop.is_set() or (self._clock.now() - self._kept_at >= self._lease / 3 and not await self._keep()):
                    return None

    def _advance(self, *, sequence: str | None, seen_at: datetime | None, closed: bool) -> None:
        self._checkpoint = self._checkpoint.model_copy(update={"sequence": sequence, "seen_at": seen_at, "closed": closed})

    async def _keep(self) -> bool:
        """Write how far it has been read, and go on for another lease; False where it is somebody else's by now."""
        now = self._clock.now()
        self._checkpoint = self._checkpoint.model_copy(update={"until": now + self._lease})
        try:
            kept = await self._checkpoints.keep(self._checkpoint)
        except UnavailableError as error:
            log.warning("checkpoint not written", shard=self._checkpoint.shard, error=str(error))
            return True
        self._kept_at = now
        if not kept:
            log.info("shard is somebody else's by now", shard=self._checkpoint.shard)
        return kept


async def _first(*events: asyncio.Event, seconds: float) -> None:
    """Until one of the events is set, so many seconds at most."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
