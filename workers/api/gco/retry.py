"""Retrying a Job that has ended: one of the queue is submitted again as it was, any other is made anew from what the cluster has of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from shared.clusters import names
from shared.clusters.job_documents import read_job
from shared.clusters.job_status import computed_status, finished
from shared.clusters.observed import Document, observed
from shared.clusters.remaking import manifest_of
from shared.clusters.standing import is_managed, job_of
from shared.errors import ConflictError, InvalidError, NotFoundError, TooLargeError
from shared.identity.callers import Caller
from shared.jobs.model import Head
from shared.jobs.submission import ANY_REGION, JobRequest
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Submitter
from workers.api.errors import answers
from workers.api.gco.applying import apply
from workers.api.gco.failing import failed
from workers.api.gco.manifest_schemas import RetryAnswer, RetryFailure
from workers.api.gco.translation import allowed_namespace, env

SCOPE: Final = "retry"
"""Idempotency keys of retries are apart from those of callers."""
_LONGEST_NAME: Final = 63
_FAILED: dict[int | str, dict[str, Any]] = {
    400: {"model": RetryFailure, "description": "The policy or the cluster refuses the Job as it would be made anew"}
}

router = APIRouter(prefix="/api/v1/jobs", tags=["Jobs"], route_class=StrictRoute)


@router.post(
    "/{namespace}/{name}/retry",
    status_code=201,
    response_model=RetryAnswer,
    responses={**answers(401, 403, 404, 409, 422, 429, 502, 503), **_FAILED},
)
async def retry_job(namespace: str, name: str, core: CoreOf, caller: Submitter, request: Request) -> RetryAnswer | Response:
    """Run a Job again that has ended, however it ended, under a new name.

    A job of the fleet's queue is submitted to the queue again, with its specification and all its options.
    """
    allowed_namespace(core, caller, namespace)
    job = await read_job(await core.cluster(), namespace, name)
    now = core.clock.now()
    head = await _head(core, job)
    new_name = retry_name(head.name if head is not None else name, now)
    job_id, errors = None, []
    try:
        if head is not None:
            job_id = await _submit_again(core, caller, head, new_name)
        else:
            errors = await _make_anew(core, caller, job, new_name)
    except (InvalidError, TooLargeError) as refusal:
        errors = [str(problem) for problem in refusal.problems]
    told = RetryAnswer(
        **env(core),
        original_job=name,
        new_job=new_name,
        namespace=namespace,
        success=not errors,
        message=f"Job '{name}' is not retried" if errors else f"Job '{name}' is retried as '{new_name}'",
        errors=errors,
        job_id=job_id,
    )
    return failed(request, told, RetryFailure, errors) if errors else told


def retry_name(name: str, now: datetime) -> str:
    """`<name>-retry-<now>`, cut so that it is a name."""
    tail = f"-retry-{now:%Y%m%d%H%M%S}"
    return name[: _LONGEST_NAME - len(tail)].rstrip("-.") + tail


async def _head(core: Core, job: Document) -> Head | None:
    """The job of the queue that a Job is of; None for one that was applied otherwise. Raises ConflictError unless it has ended."""
    name = job["metadata"]["name"]
    seen = observed(job)
    if seen is None:
        if is_managed(job):
            raise NotFoundError("Job", str(job_of(job)))
        if not finished(job):
            raise ConflictError(f"Job '{name}' is {computed_status(job)}: only a Job that has ended can be retried")
        return None
    head = await core.jobs.head(seen.job_id)
    if head is None:
        raise NotFoundError("Job", seen.job_id, hint=f"the queue doesn't know it any more; Job '{name}' is of it")
    if not head.state.terminal:
        raise ConflictError(f"Job '{name}' is of job {head.id} in the queue, which is {head.state}: only one that has ended can be retried")
    return head


async def _make_anew(core: Core, caller: Caller, job: Document, new_name: str) -> list[str]:
    """Apply the Job under its new name; what went wrong, if anything. Raises InvalidError, ConflictError."""
    metadata = job["metadata"]
    annotations = {names.RETRY_OF: f"{metadata['name']} {metadata['uid']}"}
    if template := (metadata.get("annotations") or {}).get(names.TEMPLATE):
        annotations[names.TEMPLATE] = template
    made = manifest_of(job, new_name)
    outcome = await apply(core, caller, [made], namespace=metadata["namespace"], replace=False, annotations=annotations, pointer="")
    return outcome.errors


async def _submit_again(core: Core, caller: Caller, head: Head, new_name: str) -> str:
    """The id of the new job. Raises InvalidError, ConflictError where the same was done in this second."""
    specification = (await core.jobs.specifications([head])).get(head.id)
    if specification is None:
        raise NotFoundError("Specification", head.id)
    manifest = specification.manifest
    wanted = JobRequest(
        manifest={**manifest, "metadata": {**manifest["metadata"], "name": new_name}},
        supporting=specification.supporting,
        region=ANY_REGION if head.any_region else head.region,
        namespace=head.namespace,
        priority=head.priority,
        labels=head.labels,
        retry=head.retry,
        timeouts=head.timeouts,
        max_spot_price=head.spot.max_price if head.spot else None,
        spot_instance_type=head.spot.instance_type if head.spot else None,
        submitted_by=caller.name,
        idempotency_key=f"{head.id}/{new_name}",
        idempotency_scope=SCOPE,
    )
    async with core.gate.prepared(wanted):
        submitted = await core.submission.submit(wanted)
    if not submitted.created:
        raise ConflictError(f"job {head.id} was retried in this very second already, as job {submitted.head.id} ('{new_name}')")
    return submitted.head.id
