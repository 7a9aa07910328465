"""The logs of a Job's pods as they stand: one container of each pod, read some at a time, bounded in pods and in bytes."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.clusters.api import KubernetesApi
from shared.clusters.container_states import container_states, containers_of, default_container, init_containers_of, why_pending
from shared.clusters.errors import ApiError, MissingError
from shared.clusters.job_pods import age, controller_uid, pod_selector
from shared.clusters.kinds import POD
from shared.clusters.listing import whole_list
from shared.clusters.observed import Document
from shared.errors import ConflictError, FleetError, NotFoundError

PODS: Final = 50
"""Pods of a Job whose logs are in one answer: the newest ones."""
BYTES: Final = 4 * 1024 * 1024
"""All logs of one answer together; AWS Lambda gives 6 MB, in which each quote and backslash of a log counts twice."""
CONCURRENCY: Final = 8
READ_BYTES: Final = 256 * 1024 * 1024
"""What is read of one log at the most to find its end. A kubelet keeps files of 10 MiB unless it was told otherwise."""
_SILENCE: Final = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Which lines: `tail` the last ones, `since_seconds` the latest ones, `previous` of the run before; each with its time or not."""

    container: str | None = None
    tail: int | None = None
    previous: bool = False
    since_seconds: int | None = None
    timestamps: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PodLog:
    """The log of one container; `truncated` when its beginning was left out; `error` says why there is none."""

    pod: str
    container: str
    text: str = ""
    truncated: bool = False
    error: str | None = None


class NoLogError(FleetError):
    """There is no such log: of a container that the pod hasn't, or that waits to start, or that had no run before."""


async def newest_pods(api: KubernetesApi, job: Document, *, count: int = PODS) -> tuple[list[dict[str, Any]], bool]:
    """The newest pods of a Job, the oldest of them first, and whether there are more. Raises NotFoundError, UnavailableError, ApiError."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    newest: list[tuple[tuple[str, str], dict[str, Any]]] = []
    more = False
    async for pod in whole_list(api, POD.path(job["metadata"]["namespace"]), {"labelSelector": pod_selector(job)}):
        if controller_uid(pod) != uid:
            continue
        heapq.heappush(newest, (age(pod), pod))
        if len(newest) > count:
            heapq.heappop(newest)
            more = True
    if not newest:
        raise NotFoundError("Pods of Job", name)
    return [pod for _, pod in sorted(newest, key=lambda one: one[0])], more


async def pod_of_job(api: KubernetesApi, job: Document, pod_name: str) -> dict[str, Any]:
    """One pod of a Job. Raises NotFoundError, NoLogError for a pod that isn't the Job's, UnavailableError, ApiError."""
    try:
        pod = await api.request("GET", POD.path(job["metadata"]["namespace"], pod_name))
    except MissingError:
        raise NotFoundError("Pod", pod_name) from None
    if controller_uid(pod) != job["metadata"]["uid"]:
        raise NoLogError(f"Pod '{pod_name}' does not belong to job '{job['metadata']['name']}'")
    return pod


def chosen_container(pod: Document, container: str | None) -> str:
    """The container that is meant. Raises NoLogError, with what there is, where the pod hasn't it."""
    main, init = containers_of(pod), init_containers_of(pod)
    if container is None:
        return default_container(pod)
    if container not in (*main, *init):
        there = f"Available containers: {', '.join(main)}" + (f"; init containers: {', '.join(init)}" if init else "")
        raise NoLogError(f"Container '{container}' not found in pod '{pod['metadata']['name']}'. {there}")
    return container


def require_started(pod: Document, container: str) -> None:
    """Raises ConflictError where the pod is still Pending, NoLogError where its container waits to start, both with the reason."""
    state = container_states(pod)[container]
    if state.started:
        return
    name = pod["metadata"]["name"]
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase == "Pending":
        raise ConflictError(f"Pod '{name}' is Pending, so that there is no log yet: {why_pending(pod)}")
    why = state.waits or f"the pod is {phase}"
    raise NoLogError(f"Container '{container}' of pod '{name}' has not started: {why}")


async def read_pods(api: KubernetesApi, pods: Sequence[Document], asked: Asked) -> list[PodLog]:
    """A log of each pod, in their order. Those that can't be had say why, but for that of the last pod, which is meant first of all.

    Raises NoLogError, ConflictError (of the last pod), UnavailableError, ApiError.
    """
    free = asyncio.Semaphore(CONCURRENCY)
    limit = BYTES // len(pods)

    async def read(pod: Document) -> PodLog | Exception:
        try:
            container = chosen_container(pod, asked.container)
            require_started(pod, container)
            async with free:
                return await read_pod(api, pod, container, asked, limit=limit)
        except FleetError as error:
            return error

    found = await asyncio.gather(*(read(pod) for pod in pods))
    logs = []
    for pod, one in zip(pods, found, strict=True):
        if isinstance(one, PodLog):
            logs.append(one)
        elif pod is pods[-1] or not isinstance(one, (NoLogError, ConflictError, NotFoundError)):
            raise one
        else:
            container = asked.container or default_container(pod)
            logs.append(PodLog(pod=pod["metadata"]["name"], container=container, error=str(one)))
    return logs


async def read_pod(api: KubernetesApi, pod: Document, container: str, asked: Asked, *, limit: int = BYTES) -> PodLog:
    """The log of one container, of which the last `limit` bytes.

    Raises NotFoundError for a pod that is gone, NoLogError, UnavailableError, ApiError.
    """
    metadata = pod["metadata"]
    name = str(metadata["name"])
    query = {"container": container, "limitBytes": str(READ_BYTES)}
    if asked.tail is not None:
        query["tailLines"] = str(asked.tail)
    if asked.since_seconds is not None:
        query["sinceSeconds"] = str(asked.since_seconds)
    if asked.previous:
        query["previous"] = "true"
    if asked.timestamps:
        query["timestamps"] = "true"
    try:
        async with api.stream(f"{POD.path(metadata['namespace'], name)}/log", query=query, silence=_SILENCE) as chunks:
            data, truncated = await last_bytes(chunks, limit)
    except MissingError:
        raise NotFoundError("Pod", name) from None
    except ApiError as error:
        if error.code != 400:
            raise
        raise NoLogError(f"Container '{container}' of pod '{name}': {error}") from None
    return PodLog(pod=name, container=container, text=data.decode(errors="replace"), truncated=truncated)


async def last_bytes(chunks: AsyncIterator[bytes], limit: int) -> tuple[bytes, bool]:
    """The whole lines in the last bytes of a stream, and whether that is not all. Holds little more than `limit` bytes."""
    held: deque[bytes] = deque()
    size = read = 0
    async for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        read += len(chunk)
        while size - len(held[0]) >= limit:
            size -= len(held.popleft())
    data = b"".join(held)[-limit:]
    if read <= limit:
        return data, False
    whole = data.find(b"\n") + 1
    return data[whole:] if 0 < whole < len(data) else data, True


def together(logs: Sequence[PodLog]) -> str:
    """Several logs in one text, each behind a line that tells whose it is, as `tail` does it."""
    return "".join(f"==> {one.pod}/{one.container} <==\n{_ended(one.text if one.error is None else f'({one.error})')}" for one in logs)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
