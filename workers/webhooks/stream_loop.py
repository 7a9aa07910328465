"""Reads the table's stream and passes on what it tells. Each shard is read by one process at a time, which has a lease on it.

Two that read the same shard for a moment do no harm: the messages are the same, and each delivery is made once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import FleetError, UnavailableError
from shared.store.streams import MAX_RECORDS, RETENTION, Checkpoint, Checkpoints, ExpiredError, TableStream, Told, TrimmedError
from shared.store.table import Table
from workers.process import first_of
from workers.webhooks.relay import Relay

log = structlog.get_logger()

LEASE: Final = timedelta(seconds=60)
"""How long a shard stays with one who doesn't say anything any more. In each third of it that brought events it is written how far the
shard has been read, and in each two thirds that brought none: 2,160 small writes an idle day and shard, twice as many of a busy one."""
LOOK_SECONDS: Final = 60.0
"""How often new shards are looked for, three requests each time. Sooner when one has come to its end, which has others behind it, and
while there is one that somebody else reads: at the end of his lease, and three times within it."""
RETRY_SECONDS: Final = 5.0
"""After how long it is looked again where something failed."""
_AT_ONCE: Final = 0.1
IDLE_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 0.25
"""Between two reads of a shard: where nobody was to be told of anything, and where somebody was. DynamoDB takes five a second and shard."""
_MAX_PAUSE: Final = 10.0


class StreamLoop:
    """Reads all shards that nobody else reads, until it is stopped."""

    def __init__(
        self,
        *,
        stream: TableStream,
        table: Table,
        relay: Relay,
        owner: str,
        clock: Clock,
        lease: timedelta = LEASE,
        look_seconds: float = LOOK_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._stream = stream
        self._table = table
        self._relay = relay
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._look_seconds = look_seconds
        self._idle_seconds = idle_seconds
        self._readers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._look = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set."""
        try:
            while not stop.is_set():
                self._look.clear()
                try:
                    pause = await self._take_shards(stop)
                except FleetError as error:
                    pause = self._retry_seconds
                    log.warning("shards of the stream not looked at", error=str(error))
                await first_of(stop, self._look, seconds=pause)
            await asyncio.gather(*self._readers.values(), return_exceptions=True)
        finally:
            for reader in self._readers.values():
                reader.cancel()
            await asyncio.gather(*self._readers.values(), return_exceptions=True)

    @property
    def _retry_seconds(self) -> float:
        return min(RETRY_SECONDS, self._lease.total_seconds() / 3)

    async def _take_shards(self, stop: asyncio.Event) -> float:
        """Read what nobody reads; returns in how many seconds to look again."""
        arn = await self._stream.arn()
        checkpoints = Checkpoints(self._table, arn.rpartition("/")[2])
        standing = await checkpoints.all()
        now = self._clock.now()
        pause = self._look_seconds
        for shard in await self._stream.shards(arn):
            known = standing.get(shard)
            if (arn, shard) in self._readers or (known is not None and known.closed):
                continue
            if known is not None and known.owner != self._owner and known.until > now:
                left = (known.until - now).total_seconds()
                pause = min(pause, max(left, _AT_ONCE), self._lease.total_seconds() / 3)
                continue
            checkpoint = await checkpoints.take(shard, owner=self._owner, now=now, until=now + self._lease)
            if checkpoint is None:
                pause = min(pause, self._retry_seconds)  # somebody was faster
                continue
            reader = _ShardReader(self._stream, arn, checkpoints, checkpoint, self._relay, self._clock, self._lease, self._idle_seconds)
            self._readers[arn, shard] = asyncio.create_task(self._read(reader, arn, shard, stop))
        return pause

    async def _read(self, reader: _ShardReader, arn: str, shard: str, stop: asyncio.Event) -> None:
        try:
            ended = await self._read_on(reader, shard, stop)
        finally:
            self._readers.pop((arn, shard), None)
        if ended:
            self._look.set()  # a closed shard has others behind it, and one that was given up may be taken again

    async def _read_on(self, reader: _ShardReader, shard: str, stop: asyncio.Event) -> bool:
        try:
            return await reader.run(stop)
        except FleetError as error:
            log.warning("shard given up for now", shard=shard, error=str(error))
        except Exception:
            log.exception("reading a shard failed", shard=shard)
        await first_of(stop, seconds=self._retry_seconds)
        return True


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
        idle_seconds: float,
    ) -> None:
        self._stream = stream
        self._arn = arn
        self._checkpoints = checkpoints
        self._checkpoint = checkpoint
        self._relay = relay
        self._clock = clock
        self._lease = lease
        self._idle_seconds = idle_seconds
        self._kept_at = clock.now()
        self._moved = False

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
            self._moved |= any(record.event is not None for record in batch.records)
            if (batch.iterator is None or self._keep_due()) and not await self._keep():
                return False
            if batch.iterator is None:
                return True
            iterator = batch.iterator
            await first_of(stop, seconds=(BUSY_SECONDS if sent else self._idle_seconds) if whole else 0.0)
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
                await first_of(stop, seconds=pause)
                pause = min(pause * 2, _MAX_PAUSE)
                if stop.is_set() or (self._keep_due() and not await self._keep()):
                    return None

    def _advance(self, *, sequence: str | None, seen_at: datetime | None, closed: bool) -> None:
        self._checkpoint = self._checkpoint.model_copy(update={"sequence": sequence, "seen_at": seen_at, "closed": closed})

    def _keep_due(self) -> bool:
        """Records of no event, the fleet's own checkpoints among them, cost little to be read again: for them alone nothing is written."""
        return self._clock.now() - self._kept_at >= self._lease / 3 * (1 if self._moved else 2)

    async def _keep(self) -> bool:
        """Write how far it has been read, and go on for another lease; False where it is somebody else's by now."""
        now = self._clock.now()
        self._checkpoint = self._checkpoint.model_copy(update={"until": now + self._lease})
        try:
            kept = await self._checkpoints.keep(self._checkpoint)
        except UnavailableError as error:
            log.warning("checkpoint not written", shard=self._checkpoint.shard, error=str(error))
            return True
        self._kept_at, self._moved = now, False
        if not kept:
            log.info("shard is somebody else's by now", shard=self._checkpoint.shard)
        return kept
