"""The cluster of one region, as the rules of jobs ask for it: create suspended, adopt, support, release once, delete by UID.

What makes this safe is in the requests themselves: a create is a conflict with whatever has the name, and a release and a deletion name the
UID that they mean. So none of them needs to know what happened before, and each may come twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from shared.clusters import names
from shared.clusters.api import JSON_PATCH, KubernetesApi
from shared.clusters.errors import NOTHING_DONE, ApiError, MissingError, RejectedError, TakenError
from shared.clusters.kinds import JOB, POD
from shared.clusters.kueue import Queues
from shared.clusters.observed import disruption, is_orphan, observed, owner_of
from shared.clusters.support import apply_supporting
from shared.errors import UnavailableError
from shared.jobs.ports import Bundle, Observed, RefusedError, StrangerError

CREATE_QUERY = {"fieldManager": "gpufleet", "fieldValidation": "Strict"}
"""Strict: a field that this cluster doesn't know is refused, where it would be dropped without a word by default."""

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
PAGE = "500"


class KubernetesCluster:
    """`shared.jobs.ports.Cluster` over the API server of a region.

    With `kueue_queue`, Kueue admits: a release puts the object into that local queue (or the one that its annotation asks for) and
    leaves it to Kueue to unsuspend it.
    """

    def __init__(self, api: KubernetesApi, *, kueue_queue: str | None = None) -> None:
        self._api = api
        self._queues = Queues(kueue_queue) if kueue_queue is not None else None

    async def create(self, bundle: Bundle, job_id: str, execution: int, spec_hash: str) -> Observed:
        """Create the execution's object, suspended, or adopt the one that is ours. Raises RefusedError, StrangerError."""
        job = bundle.job
        namespace = str(job["metadata"]["namespace"])
        try:
            made = await self._api.request("POST", JOB.path(namespace), query=CREATE_QUERY, body=job)
        except TakenError as taken:
            found = await self._get(namespace, bundle.name)
            if found is None:
                # It went in between; or the 409 was of something else, such as two writers of one quota.
                raise UnavailableError(str(taken)) from taken
            return self._adopt(found, job_id, execution, spec_hash)
        except UnavailableError as error:
            found = None if isinstance(error, NOTHING_DONE) else await self._look_up(namespace, bundle.name)
            if found is None:
                raise
            return self._adopt(found, job_id, execution, spec_hash)
        except ApiError as error:
            raise RefusedError(str(error)) from error
        return self._adopt(made, job_id, execution, spec_hash)

    async def read(self, namespace: str, name: str) -> Observed | None:
        """The fleet's object under a name; None where there is none (or only a stranger)."""
        found = await self._get(namespace, name)
        return observed(found) if found is not None else None

    async def support(self, bundle: Bundle, owner: Observed) -> None:
        """Apply the supporting objects, owned by the execution's object. Idempotent. Raises RefusedError, StrangerError."""
        await apply_supporting(self._api, bundle.supporting, owner)

    async def release(self, namespace: str, name: str, uid: str, at: datetime) -> bool:
        """Let the object run, once for ever; False where that UID isn't there any more. An earlier release is left as it is."""
        path = JOB.path(namespace, name)
        if self._queues is None:
            run = {"op": "replace", "path": "/spec/suspend", "value": False}
        else:
            queue = self._queues.of(uid)
            if queue is None:
                found = await self._get(namespace, name)
                if found is None:
                    return False
                queue = self._queues.learn(found)
            run = {"op": "add", "path": f"/metadata/labels/{_pointer(names.KUEUE_QUEUE)}", "value": queue}
        annotation = f"/metadata/annotations/{_pointer(names.RELEASED)}"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": annotation, "value": "no"},
            {"op": "replace", "path": annotation, "value": _rfc3339(at)},
            run,
        ]
        try:
            await self._api.request("PATCH", path, query={"fieldManager": "gpufleet"}, body=patch, content_type=JSON_PATCH)
        except MissingError:
            return False
        except TakenError as error:
            raise UnavailableError(str(error)) from error
        except RejectedError as rejected:
            if rejected.code != 422:
                raise
            return await self._was_released(namespace, name, uid, rejected)
        return True

    async def disruption(self, namespace: str, name: str) -> str | None:
        """Why a pod of the object lost its machine (its condition DisruptionTarget), None where none did."""
        query = {"labelSelector": f"batch.kubernetes.io/job-name={name},{names.MANAGED}=true", "limit": PAGE}
        async with aclosing(self._pods(namespace, query)) as pods:
            async for pod in pods:
                if (reason := disruption(pod)) is not None:
                    return reason
        return None

    async def pods_left(self, namespace: str, job_id: str, execution: int) -> bool:
        """Whether a pod of the execution still runs or may run. Pods outlive an object that others deleted in the background."""
        async with aclosing(self._pods(namespace, _left(job_id, execution) | {"limit": "1"})) as pods:
            return await anext(pods, None) is not None

    async def clear_pods(self, namespace: str, job_id: str, execution: int, uid: str) -> bool:
        """Delete the execution's pods that its object, of that UID and gone, left without an owner; True when no pod is left at all.

        A pod that has an owner goes with it, or belongs to somebody who has taken it over: it is waited for.
        """
        clear = True
        async with aclosing(self._pods(namespace, _left(job_id, execution) | {"limit": PAGE})) as pods:
            async for pod in pods:
                clear = False
                if is_orphan(pod, of=uid):
                    await self._delete_pod(namespace, pod["metadata"])
        return clear

    async def delete(self, namespace: str, name: str, uid: str) -> bool:
        """Delete the object of that UID and then its pods; True when it is gone, False while its pods are still going."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        try:
            answer = await self._api.request("DELETE", JOB.path(namespace, name), body=options)
        except MissingError:
            return True
        except TakenError as taken:
            return await self._is_gone(namespace, name, uid, taken)
        except ApiError as error:
            raise UnavailableError(str(error)) from error
        # A Status says that it is done; while finalizers hold the object, the object itself comes back.
        return answer.get("kind") == "Status"

    async def _delete_pod(self, namespace: str, metadata: Mapping[str, Any]) -> None:
        """Delete a pod as it was read, so that nobody has taken it over since; one that has changed is for the next look."""
        preconditions = {name: metadata[name] for name in ("uid", "resourceVersion")}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        try:
            await self._api.request("DELETE", POD.path(namespace, metadata["name"]), body=options)
        except (MissingError, TakenError):
            return
        except ApiError as error:
            raise UnavailableError(str(error)) from error

    def _adopt(self, found: Mapping[str, Any], job_id: str, execution: int, spec_hash: str) -> Observed:
        seen = observed(found)
        if seen is None or (seen.job_id, seen.execution, seen.spec_hash) != (job_id, execution, spec_hash):
            metadata = found["metadata"]
            raise StrangerError(
                f"Job {metadata['namespace']}/{metadata['name']} (UID {metadata['uid']}) is not of job {job_id}, execution {execution}; "
                f"it seems to belong to {owner_of(found)}"
            )
        if self._queues is not None:
            self._queues.learn(found)
        return seen

    async def _get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A Job under a name. A refusal to let us read is a fault of the installation that passes, and says nothing about any job."""
        try:
            return await self._api.request("GET", JOB.path(namespace, name))
        except MissingError:
            return None
        except ApiError as error:
            raise UnavailableError(str(error)) from error

    async def _pods(self, namespace: str, query: dict[str, str]) -> AsyncGenerator[Mapping[str, Any], None]:
        """Pods of a namespace, page by page as they are asked for; none where there is no such namespace."""
        while True:
            try:
                page = await self._api.request("GET", POD.path(namespace), query=query)
            except MissingError:
                return
            except ApiError as error:
                raise UnavailableError(str(error)) from error
            for pod in page.get("items") or ():
                yield pod
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            query = {**query, "continue": token}

    async def _look_up(self, namespace: str, name: str) -> dict[str, Any] | None:
        """What stands under a name after an answer that left it open; None also where that can't be told either."""
        try:
            return await self._get(namespace, name)
        except UnavailableError:
            return None

    async def _was_released(self, namespace: str, name: str, uid: str, rejected: RejectedError) -> bool:
        """A test of the patch failed: the object is another one, or had been released. Else the server refused the change itself."""
        found = await self._get(namespace, name)
        if found is None or found["metadata"]["uid"] != uid:
            return False
        if (found["metadata"].get("annotations") or {}).get(names.RELEASED) == "no":
            raise rejected
        return True

    async def _is_gone(self, namespace: str, name: str, uid: str, taken: TakenError) -> bool:
        """A deletion met a conflict: the name has another UID by now, so ours is gone; or somebody wrote at the same time."""
        found = await self._get(namespace, name)
        if found is not None and found["metadata"]["uid"] == uid:
            raise UnavailableError(str(taken)) from taken
        return True


def _left(job_id: str, execution: int) -> dict[str, str]:
    """The query for the pods of an execution that have not ended."""
    selector = f"{names.MANAGED}=true,{names.JOB_ID}={job_id},{names.EXECUTION}={execution}"
    return {"labelSelector": selector, "fieldSelector": NOT_ENDED}


def _pointer(key: str) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
