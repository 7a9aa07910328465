"""Objects and clients for tests against a simulated cluster."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, TypeVar

from shared.clusters.pods import PodView
from shared.clusters.rendering import RenderIdentity, render
from shared.clusters.transport import Answer, Transport
from shared.clusters.watch import Changed, Feed, Item, Listed
from shared.jobs.model import ClusterObject, Head
from shared.jobs.ports import Bundle, Observed
from shared.jobs.states import State

T = TypeVar("T")
NAMESPACE = "ml"
JOB_ID = "0198c0de-0000-7000-8000-0123456789ab"
AT = datetime(2026, 5, 17, 12, 0, 0, tzinfo=UTC)


def bundle(
    *,
    job_id: str = JOB_ID,
    execution: int = 1,
    namespace: str = NAMESPACE,
    spec_hash: str = "abc",
    supporting=(),
    queue=None,
    backoff_limit: int = 0,
    parallelism: int = 1,
    **plan: str,
) -> Bundle:
    """The objects of an execution; `plan` tells the simulated pods what to do."""
    manifest: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "annotations": {f"simulation.gpufleet.io/{key.replace('_', '-')}": value for key, value in plan.items()},
        },
        "spec": {
            "backoffLimit": backoff_limit,
            "parallelism": parallelism,
            "completions": parallelism,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}},
        },
    }
    if queue:
        manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    identity = RenderIdentity(job_id=job_id, execution=execution, name="train", namespace=namespace, spec_hash=spec_hash)
    made = render(manifest, supporting, identity=identity)
    return Bundle(job=made.job, supporting=made.supporting)


def config_map(name: str = "settings", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"rate": "0.1"}}


def head(seen: Observed) -> Head:
    """The head of a job whose object was committed."""
    return Head(
        id=seen.job_id,
        name="train",
        namespace=seen.namespace,
        region="eu-west-1",
        state=State.RUNNING,
        priority=50,
        revision=3,
        fence=1,
        stamp="s",
        spec_version=1,
        spec_hash=seen.spec_hash,
        gpus=0,
        submitted_at=AT,
        updated_at=AT,
        execution=seen.execution,
        object=ClusterObject(name=seen.name, uid=seen.uid),
    )


def ended(item: Item[Observed]) -> bool:
    """Whether an item of a feed tells of a Job's end."""
    objects = item.objects if isinstance(item, Listed) else [item.object]
    return any(seen.complete or seen.failed_reason for seen in objects)


def runs(item: Item[PodView]) -> bool:
    """Whether an item of a feed tells of a pod that runs."""
    objects = item.objects if isinstance(item, Listed) else [item.object]
    return any(pod.running for pod in objects)


def changed(job_id: str) -> Callable[[Item[Observed]], bool]:
    """Whether an item of a feed tells of a Job that is new or has changed."""
    return lambda item: isinstance(item, Changed) and item.object.job_id == job_id


async def upcoming(items: AsyncIterator[Item[T]], met: Callable[[Item[T]], bool]) -> Item[T]:
    """The next item that meets a condition."""
    async for item in items:
        if met(item):
            return item
    raise AssertionError("a feed doesn't end")


async def until(feed: Feed[T], met: Callable[[Item[T]], bool]) -> Item[T]:
    """Follow a feed until an item meets a condition."""
    async with aclosing(aiter(feed)) as items:  # type: ignore[type-var] # an async generator can be closed
        return await upcoming(items, met)


class Counting:
    """A transport that notes what goes through it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.requests: list[str] = []

    async def send(self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        self.requests.append(f"{method} {path.rsplit('/', 1)[-1]}")
        return await self._inner.send(method, path, query=query, headers=headers, body=body)

    async def close(self) -> None:
        await self._inner.close()


class Pauses:
    """A sleep that takes no time, notes what it was asked for, and lets a test do something meanwhile."""

    def __init__(self, meanwhile: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.asked: list[float] = []
        self.meanwhile = meanwhile

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        if self.meanwhile is not None:
            await self.meanwhile()


class MemoryObjects:
    """A bucket in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    async def put(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        self.objects[key] = data

    async def get(self, key: str) -> bytes | None:
        return self.objects.get(key)
