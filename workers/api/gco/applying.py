"""The one way in which this door applies manifests to its cluster: policy, the caller's namespaces, then the cluster itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared.clusters.applying import Applied, Done, Outcome, Wanted
from shared.clusters.applying import apply as apply_to_cluster
from shared.clusters.manifests import expanded
from shared.errors import InvalidError, NotHereError, Problem
from shared.identity.callers import Caller
from shared.policy.admission import Admission
from shared.policy.manifests import check_parts
from workers.api.core import Core

MAX_MANIFESTS: Final = 100
"""Objects of one request, the items of Lists counted each. Each costs a cluster three requests."""

Part = tuple[str, Any]
"""A manifest, and the JSON pointer of its place."""


async def apply(
    core: Core,
    caller: Caller,
    manifests: Sequence[Mapping[str, Any]],
    *,
    namespace: str | None = None,
    dry_run: bool = False,
    replace: bool = True,
    pointer: str = "/manifests",
    annotations: Mapping[str, str] | None = None,
) -> Outcome:
    """Apply manifests as `shared.clusters.applying` does, when policy and namespaces allow all of them.

    `namespace` is for manifests that say none; one that says another is refused. Without `replace` a finished Job of the same name is a
    conflict too. `annotations` are the fleet's own, for every object. `pointer` is the place of the manifests in what was sent. Without
    a cluster to reach, a dry run only validates, and its messages say so.

    Raises:
        InvalidError, TooLargeError, ForbiddenError: the policy's, over all manifests; or a namespace isn't the caller's.
        ConflictError: an active Job or an object of the fleet's queue has the name; nothing is applied.
        UnavailableError, ApiError: nothing is applied.
    """
    parts = parts_of(manifests, pointer=pointer)
    admitted = await asyncio.to_thread(check_parts, parts, namespace=namespace, policy=core.policy)
    for one in admitted:
        caller.require_namespace(one.namespace)
    try:
        api = await core.cluster()
    except NotHereError as error:
        if not dry_run:
            raise
        return Outcome(resources=tuple(_validated(one, str(error)) for one in admitted))
    wanted = [
        Wanted(manifest=manifest, namespace=one.namespace, replaces=replace, annotations=annotations or {})
        for (_, manifest), one in zip(parts, admitted, strict=True)
    ]
    return await apply_to_cluster(api, wanted, submitted_by=caller.name, dry_run=dry_run)


def parts_of(manifests: Sequence[Mapping[str, Any]], *, pointer: str = "/manifests") -> list[Part]:
    """The manifests with their places, Lists expanded. Raises InvalidError where there are none, or too many."""
    parts: list[Part] = []
    for index, manifest in enumerate(manifests):
        for part in expanded(manifest, f"{pointer}/{index}"):
            parts.append(part)
            if len(parts) > MAX_MANIFESTS:
                raise InvalidError([Problem(pointer=pointer, value=None, rule=f"must hold at most {MAX_MANIFESTS} manifests")])
    if not parts:
        raise InvalidError([Problem(pointer=pointer, value=None, rule="must hold at least one manifest")])
    return parts


def _validated(one: Admission, why: str) -> Applied:
    return Applied(
        api_version=one.api_version,
        kind=one.kind,
        namespace=one.namespace,
        name=one.name,
        status=Done.UNCHANGED,
        message=f"validated only, not dry-run on a cluster: {why}",
    )
