"""The keys of the table and of its indexes: the only place where they are put together.

Every index is sparse: an item stands in it only while it has the index's key attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shared.clock import from_sortable, sortable
from shared.jobs.model import Head
from shared.jobs.schedule import due_at, in_ready_list, ready_order
from shared.settings import Settings

HEAD = "HEAD"
EVENT = "EVENT#"
EXECUTION = "EXEC#"
DELIVERY = "DELIVERY#"
READY_INDEX = "ready"
DUE_INDEX = "due"
STATE_INDEX = "by_state"
NAMESPACE_INDEX = "by_namespace"

INDEXES: dict[str, tuple[str, str]] = {
    READY_INDEX: ("ready_pk", "ready_sk"),
    DUE_INDEX: ("due_pk", "due_sk"),
    STATE_INDEX: ("state_pk", "listed_sk"),
    NAMESPACE_INDEX: ("namespace_pk", "listed_sk"),
}
"""Index name to its partition and sort key attribute."""

INDEX_KEYS = tuple(sorted({key for keys in INDEXES.values() for key in keys}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Over how many partitions the busy keys are spread.

    DynamoDB takes 1,000 writes a second on one partition key. A job writes to `ready` twice and to `due` four times; one shard carries
    about 250 jobs a second and region. Every process writes and reads: for another number all are told to read the larger one first
    (`ready_shards_read`, `due_shards_read`), then to write the other. Counters are spread so that transactions that run at the same time
    seldom meet on one item (a meeting is a TransactionConflict, and tried again).
    """

    ready_shards: int = 1
    due_shards: int = 1
    ready_shards_read: int | None = None
    due_shards_read: int | None = None
    counter_shards: int = 16

    @classmethod
    def of(cls, settings: Settings) -> Layout:
        """As an installation says."""
        return cls(
            ready_shards=settings.ready_shards,
            due_shards=settings.due_shards,
            ready_shards_read=settings.ready_shards_read,
            due_shards_read=settings.due_shards_read,
        )

    def ready_partitions(self, region: str) -> list[str]:
        """Where a region's ready entries may stand."""
        return [ready_partition(region, shard) for shard in range(self.ready_shards_read or self.ready_shards)]

    def due_partitions(self, region: str) -> list[str]:
        """Where a region's due marks may stand."""
        return [due_partition(region, shard) for shard in range(self.due_shards_read or self.due_shards)]

    def deliveries_due(self) -> list[str]:
        """Where due marks of deliveries may stand."""
        return [deliveries_due(shard) for shard in range(self.due_shards_read or self.due_shards)]


def job(job_id: str) -> str:
    """Partition of everything that belongs to one job."""
    return f"JOB#{job_id}"


def is_job(pk: str) -> bool:
    """Whether a partition is a job's. What is due in a region may also be the region itself."""
    return pk.startswith("JOB#")


def job_id_of(pk: str) -> str:
    """The job id in a partition key."""
    return pk.removeprefix("JOB#")


def specification(version: int) -> str:
    """Sort key of one version of a specification."""
    return f"SPEC#{version:06d}"


def execution(number: int) -> str:
    """Sort key of an execution that has ended."""
    return f"{EXECUTION}{number:06d}"


def event(number: int) -> str:
    """Sort key of an event."""
    return f"{EVENT}{number:08d}"


def idempotency(scope: str, key: str) -> str:
    """Partition of an idempotency entry; `scope` keeps the keys of different callers apart."""
    return f"IDEM#{scope}#{key}"


def ready_partition(region: str, shard: int) -> str:
    """Partition of one shard of a region's ready list."""
    return f"READY#{region}#{shard}"


def due_partition(region: str, shard: int) -> str:
    """Partition of one shard of a region's due marks."""
    return f"DUE#{region}#{shard}"


def state_partition(region: str, state: str) -> str:
    """Partition of the jobs of a region in one state."""
    return f"STATE#{region}#{state}"


def namespace_partition(namespace: str, state: str) -> str:
    """Partition of the jobs of a namespace in one state."""
    return f"NAMESPACE#{namespace}#{state}"


def counter(region: str, shard: int) -> dict[str, str]:
    """Key of one shard of a region's counters."""
    return {"pk": f"COUNT#{region}#{shard}", "sk": "COUNT"}


def counted_region(pk: str) -> str:
    """The region in the key of a shard of counters."""
    return pk.removeprefix("COUNT#").rsplit("#", 1)[0]


def total(noun: str, of: str | None = None) -> dict[str, str]:
    """Key of how many things of a sort there are, or how many of one part of them."""
    return {"pk": f"TOTAL#{noun}" if of is None else f"TOTAL#{noun}#{of}", "sk": "TOTAL"}


def template(name: str) -> dict[str, str]:
    """Key of a template's head."""
    return {"pk": f"TEMPLATE#{name}", "sk": HEAD}


def template_version(name: str, version: int) -> dict[str, str]:
    """Key of one version of a template."""
    return {"pk": f"TEMPLATE#{name}", "sk": f"VERSION#{version:06d}"}


def webhook(webhook_id: str) -> dict[str, str]:
    """Key of the entry that says in which partition a webhook stands."""
    return {"pk": f"WEBHOOK#{webhook_id}", "sk": "WEBHOOK"}


def webhook_health(webhook_id: str) -> dict[str, str]:
    """Key of how a webhook's endpoint fares."""
    return {"pk": f"WEBHOOK#{webhook_id}", "sk": "HEALTH"}


def webhooks_of(namespace: str | None) -> str:
    """Partition of the webhooks of one namespace, or of those that concern all: whoever has an event to tell reads it whole."""
    return f"WEBHOOKS#{namespace or '*'}"


def delivery(webhook_id: str, job_id: str, number: int) -> dict[str, str]:
    """Key of the delivery of an event: beside the event, so that one query reads all that there is to tell and what has been told."""
    return {"pk": job(job_id), "sk": f"{DELIVERY}{webhook_id}#{number:08d}"}


def delivery_parts(pk: str, sk: str) -> tuple[str, str, int]:
    """Webhook, job and number of the event in the key of a delivery."""
    webhook_id, _, number = sk.removeprefix(DELIVERY).rpartition("#")
    return webhook_id, job_id_of(pk), int(number)


def deliveries_of(webhook_id: str, state: str | None = None) -> str:
    """Partition of the deliveries to one webhook, or of those in one state."""
    return f"DELIVERIES#{webhook_id}" if state is None else f"DELIVERIES#{webhook_id}#{state}"


def deliveries_due(shard: int) -> str:
    """Partition of one shard of the due marks of deliveries; no region has this name."""
    return due_partition("webhooks", shard)


def checkpoint(stream: str, shard: str) -> dict[str, str]:
    """Key of how far a shard of a stream has been read."""
    return {"pk": f"STREAM#{stream}", "sk": shard}


def cluster_report(region: str) -> dict[str, str]:
    """Key of what the observer last said of a region's cluster."""
    return {"pk": f"CLUSTER#{region}", "sk": "REPORT"}


def region(name: str) -> dict[str, str]:
    """Key of what operators decided about a region."""
    return {"pk": f"REGION#{name}", "sk": "STATUS"}


BEATS = "LOOPS"
"""Partition of what is told of workers' loops."""


def beat(worker: str, region: str | None, owner: str) -> dict[str, str]:
    """Key of what the loop of one process tells of itself."""
    return {"pk": BEATS, "sk": f"{worker}#{region or '*'}#{owner}"}


def listed_order(head: Head) -> str:
    """Sort key of the lists: time of submission, then id."""
    return by_time(head.submitted_at, head.id)


def by_time(moment: datetime, name: str) -> str:
    """Sort key of whatever is listed by time."""
    return f"{sortable(moment)}#{name}"


def due_order(moment: datetime, job_id: str) -> str:
    """Sort key of a due mark."""
    return f"{sortable(moment)}#{job_id}"


def due_time(sort_key: str) -> datetime:
    """The time in the sort key of a due mark."""
    return from_sortable(sort_key.partition("#")[0])


def shard_of(job_id: str, shards: int) -> int:
    """The shard of a job: its id's random end, so that it is the same for every writer."""
    return int(job_id[-4:], 16) % shards


def index_attributes(head: Head, layout: Layout) -> dict[str, str]:
    """The index attributes of a head, derived from it alone: what is missing here is what the head must not have."""
    found = {
        "listed_sk": listed_order(head),
        "state_pk": state_partition(head.region, head.state),
        "namespace_pk": namespace_partition(head.namespace, head.state),
    }
    if in_ready_list(head):
        found["ready_pk"] = ready_partition(head.region, shard_of(head.id, layout.ready_shards))
        found["ready_sk"] = ready_order(head)
    due = due_at(head)
    if due is not None:
        found["due_pk"] = due_partition(head.region, shard_of(head.id, layout.due_shards))
        found["due_sk"] = due_order(due, head.id)
    return found
