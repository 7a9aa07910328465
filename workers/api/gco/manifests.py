"""The manifests group of the GCO door: apply, validate, look at and delete objects of the cluster directly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from shared.clusters.deleting import delete_by_uid
from shared.clusters.kinds import APPLIED, JOB, Kind
from shared.clusters.resources import read_resource, without_bookkeeping
from shared.clusters.standing import is_managed, job_of
from shared.clusters.trees import step
from shared.errors import ConflictError, ForbiddenError, InvalidError, Problem, TooLargeError, cut
from shared.ids import is_job_id
from shared.policy.manifests import check_parts
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader, Submitter
from workers.api.errors import answers
from workers.api.gco import validating
from workers.api.gco.applying import MAX_MANIFESTS, apply, parts_of
from workers.api.gco.deleting import delete_job
from workers.api.gco.failing import failed
from workers.api.gco.manifest_schemas import (
    DeletedResource,
    ManifestResult,
    ManifestsAnswer,
    ManifestsFailure,
    ManifestsRequest,
    ManifestSummary,
    Resource,
    ResourceAnswer,
    ResourceDeletedAnswer,
    ValidationAnswer,
)
from workers.api.gco.translation import allowed_namespace, env

_FAILED: dict[int | str, dict[str, Any]] = {
    400: {"model": ManifestsFailure, "description": "The cluster refuses a manifest, or failed: what was done with each is told"}
}


class ManifestsRoute(StrictRoute):
    """A route whose body has manifests: where other fields are wrong, all that is wrong with these is told with them."""

    async def further(self, request: Request, document: Any, told: Iterable[Mapping[str, Any]]) -> Sequence[Problem]:
        """What the policy has against the manifests of the body."""
        manifests = document.get("manifests") if isinstance(document, dict) else None
        if not isinstance(manifests, list) or not 1 <= len(manifests) <= MAX_MANIFESTS:
            return ()
        namespace = document.get("namespace")
        policy = request.app.state.core.policy
        known = {"".join(step(part) for part in one["loc"][1:]) for one in told}
        try:
            parts = parts_of([one for one in manifests if isinstance(one, dict)] if known else manifests)
            await asyncio.to_thread(check_parts, parts, namespace=namespace if isinstance(namespace, str) else None, policy=policy)
        except (InvalidError, ForbiddenError, TooLargeError) as refusal:
            return tuple(problem for problem in refusal.problems if problem.pointer not in known)
        return ()


router = APIRouter(prefix="/api/v1/manifests", tags=["Manifests"], route_class=ManifestsRoute)


@router.post("", response_model=ManifestsAnswer, responses={**answers(401, 403, 409, 413, 422, 429, 502, 503), **_FAILED})
async def submit_manifests(body: ManifestsRequest, core: CoreOf, caller: Submitter, request: Request) -> ManifestsAnswer | Response:
    """Apply manifests in their order, when the policy admits all and the cluster would take all (a server-side dry run of each).

    A finished Job of the same name is replaced; an active one, and any object of a job in the fleet's queue, is a 409. After a failure
    the rest is not tried. With `dry_run` nothing is changed, and the statuses tell what would be done.
    """
    outcome = await apply(core, caller, body.manifests, namespace=body.namespace, dry_run=body.dry_run)
    told = ManifestsAnswer(
        **env(core),
        success=outcome.success,
        summary=ManifestSummary.of(outcome),
        resources=[ManifestResult.of(one) for one in outcome.resources],
        errors=outcome.errors,
    )
    return told if outcome.success else failed(request, told, ManifestsFailure, outcome.errors)


@router.post("/validate", responses=answers(401, 403, 413, 422, 429, 503))
async def validate_manifests(body: ManifestsRequest, core: CoreOf, caller: Reader) -> ValidationAnswer:
    """Check manifests against the policy, each for itself. The cluster isn't asked; a dry run does that."""
    results = await asyncio.to_thread(validating.verdicts, core.policy, caller, body.manifests, body.namespace)
    valid = sum(result.valid for result in results)
    return ValidationAnswer(
        **env(core),
        valid=valid == len(results),
        total_manifests=len(results),
        valid_manifests=valid,
        invalid_manifests=len(results) - valid,
        results=results,
    )


@router.get("/{namespace}/{name}", responses=answers(401, 403, 404, 422, 429, 502, 503))
async def get_resource_status(
    namespace: str, name: str, core: CoreOf, caller: Reader, api_version: str = "apps/v1", kind: str = "Deployment"
) -> ResourceAnswer:
    """One object as it stands on the cluster."""
    allowed_namespace(core, caller, namespace)
    found = await read_resource(await core.cluster(), _kind(core, api_version, kind), namespace, name)
    resource = Resource(
        api_version=api_version,
        kind=kind,
        name=name,
        namespace=namespace,
        exists=True,
        status=found.get("status") or {},
        metadata=without_bookkeeping(found),
        spec=found.get("spec") or {},
        data=found.get("data"),
    )
    return ResourceAnswer(**env(core), resource=resource)


@router.delete("/{namespace}/{name}", responses=answers(401, 403, 404, 409, 422, 429, 502, 503))
async def delete_resource(
    namespace: str, name: str, core: CoreOf, caller: Submitter, api_version: str = "apps/v1", kind: str = "Deployment"
) -> ResourceDeletedAnswer:
    """Delete an object, and what belongs to it (such as the pods of a Job)."""
    allowed_namespace(core, caller, namespace)
    found = _kind(core, api_version, kind)
    if found is JOB:
        await delete_job(core, caller, namespace, name)
    else:
        await _delete(core, found, namespace, name)
    deleted = DeletedResource(
        api_version=api_version, kind=kind, name=name, namespace=namespace, status="deleted", message=f"{kind} '{name}' deleted"
    )
    return ResourceDeletedAnswer(**env(core), success=True, resource=deleted)


def _kind(core: Core, api_version: str, kind: str) -> Kind:
    """An allowed kind in its allowed version. Raises ForbiddenError."""
    allowed = core.policy.manifest_kinds
    versions = [version for version, name in allowed if name == kind]
    if not versions:
        raise ForbiddenError(f"Resource kind '{cut(kind)}' is not allowed. Allowed kinds: {[name for _, name in allowed]}")
    if api_version not in versions:
        raise ForbiddenError(f"API version '{cut(api_version)}' is not allowed for kind '{cut(kind)}'. Allowed versions: {versions}")
    return APPLIED[api_version, kind]


async def _delete(core: Core, kind: Kind, namespace: str, name: str) -> None:
    """Delete an object that isn't a Job. Raises NotFoundError, and ConflictError for one that a job of the queue still needs."""
    api = await core.cluster()
    found = await read_resource(api, kind, namespace, name)
    job_id = job_of(found) if is_managed(found) else None
    head = await core.jobs.head(job_id) if job_id is not None and is_job_id(job_id) else None
    if head is not None and not head.state.terminal:
        raise ConflictError(
            f"{kind.kind} '{name}' is of job {head.id} in the queue, which is {head.state}: cancel the job or wait for its end"
        )
    await delete_by_uid(api, namespace, name, found["metadata"]["uid"], kind=kind)
