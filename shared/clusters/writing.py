"""Server-side apply over exactly that version of an object which was looked at, so that nothing is overwritten unseen.

What stands is named by UID and resource version, and what doesn't stand is applied without force: whoever came in between makes a conflict,
upon which is looked again. Over what stands it is forced, as the original's merge patch is: fields of the manifest become ours whoever set
them, and all others stay their managers'. https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.clusters.api import APPLY, KubernetesApi, Reply
from shared.clusters.errors import NOTHING_DONE, TakenError
from shared.clusters.standing import Target, insist, look, objection
from shared.errors import ConflictError, UnavailableError

_RACES: Final = 5
"""How often somebody else may write in between. Controllers write the status of what they steer every few seconds."""


class Write:
    """One server-side apply, over as many tries as it takes. `standing` is what was found there before."""

    def __init__(self, api: KubernetesApi, target: Target, standing: Mapping[str, Any] | None, *, query: Mapping[str, str]) -> None:
        self._api = api
        self._target = target
        self._before = standing
        self._standing = standing
        self._query = query
        self._lost = False
        self._dry = "dryRun" in query

    async def make(self, *, until: float) -> tuple[str, dict[str, Any]]:
        """Apply; returns `created`, `updated` or `unchanged`, and the object as it stands then.

        Raises ConflictError (it may not be written over any more, or changes all the time), ApiError, UnavailableError (all is open).
        """
        return await insist(self._try, until=until)

    async def _try(self) -> tuple[str, dict[str, Any]]:
        for _ in range(_RACES):
            if (why := objection(self._target, self._standing)) is not None:
                raise ConflictError(why)
            try:
                reply = await self._apply()
            except TakenError:
                self._standing = await look(self._api, self._target)
            except UnavailableError as error:
                self._lost = self._lost or not isinstance(error, NOTHING_DONE)
                raise
            else:
                return self._outcome(reply), reply.document
        why = f"{self._target} is changed by others all the time: submit again"
        raise UnavailableError(why) if self._lost else ConflictError(why)

    async def _apply(self) -> Reply:
        document, query = self._target.document, self._query
        if self._standing is not None:
            seen = {field: self._standing["metadata"][field] for field in ("uid", "resourceVersion")}
            document, query = self._target.annotated(**seen), {**query, "force": "true"}
        return await self._api.ask("PATCH", self._target.path, query=query, body=document, content_type=APPLY)

    def _outcome(self, reply: Reply) -> str:
        """From the cluster's answer. A try whose answer was lost counts too: then it is compared with what was there before all tries."""
        before = self._before if self._lost else self._standing
        if reply.status == 201 or (self._lost and before is None):
            return "created"
        if before is None:
            return "updated"
        # A dry run gives a changed object the version that it has.
        same = reply.document == before if self._dry else _version(reply.document) == _version(before)
        return "unchanged" if same else "updated"


def _version(document: Mapping[str, Any]) -> tuple[str, str]:
    return document["metadata"]["uid"], document["metadata"]["resourceVersion"]
