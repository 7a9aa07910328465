"""The loop over the submissions queue."""

from __future__ import annotations

from shared.queues.queue import Queue
from workers.batches import BATCHES, BatchLoop
from workers.ingest.ingest import Ingest, Outcome


class IngestLoop(BatchLoop[Outcome]):
    """Runs ingest until it is stopped."""

    def __init__(self, *, queue: Queue, ingest: Ingest, grace_seconds: float, batches: int = BATCHES) -> None:
        super().__init__(queue=queue, handler=ingest, left=Outcome.LEFT, grace_seconds=grace_seconds, batches=batches)
