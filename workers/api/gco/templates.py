"""The templates group of the GCO door: manifests with placeholders, and what is made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from shared.clusters import names
from shared.clusters.trees import canonical, step
from shared.errors import InvalidError, NotFoundError, Problem, TooLargeError
from shared.identity.callers import Caller
from shared.templates import instances
from shared.templates.model import Content, Template, TemplateHead
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader, Submitter
from workers.api.errors import answers
from workers.api.gco.applying import apply
from workers.api.gco.failing import failed
from workers.api.gco.schemas import MessageAnswer
from workers.api.gco.template_schemas import (
    MAX_PARAMETERS,
    JobFromTemplateAnswer,
    JobFromTemplateFailure,
    JobFromTemplateRequest,
    JobTemplateRequest,
    JobTemplateUpdate,
    TemplateAnswer,
    TemplateContent,
    TemplateListAnswer,
    TemplateMessageAnswer,
    TemplateRecord,
    TemplateSummary,
)
from workers.api.gco.translation import env

_FAILED: dict[int | str, dict[str, Any]] = {
    400: {"model": JobFromTemplateFailure, "description": "The cluster refuses what was made, or failed"}
}
_APPLIED_AT = "/manifest/0"


class TemplateRoute(StrictRoute):
    """A route whose body has a template: where other fields are wrong, all that is wrong with the rest is told with them."""

    async def further(self, request: Request, document: Any, told: Iterable[Mapping[str, Any]]) -> Sequence[Problem]:
        """What the rules of templates have against the body."""
        if not isinstance(document, dict) or not isinstance(document.get("manifest"), dict):
            return ()
        defaults = document.get("parameters")
        try:
            found: Sequence[Problem] = await asyncio.to_thread(
                instances.check_template,
                document.get("name"),
                document["manifest"],
                defaults if isinstance(defaults, dict) and not _too_many(defaults) else {},
                policy=request.app.state.core.policy,
            )
        except TooLargeError as too_large:
            found = too_large.problems
        return _not_told(found, told)


class JobFromTemplateRoute(StrictRoute):
    """A route whose body says what is made of a template: all that is wrong is told at once here too."""

    async def further(self, request: Request, document: Any, told: Iterable[Mapping[str, Any]]) -> Sequence[Problem]:
        """What the template and the policy have against what would be made of it."""
        if not isinstance(document, dict) or _too_many(document.get("parameters")):
            return ()
        core: Core = request.app.state.core
        name = request.path_params["name"]
        try:
            template = await core.templates.get(name)
        except NotFoundError:
            return ()
        if not _visible(request.state.caller, template.head):
            return ()
        given, wanted, namespace = document.get("parameters"), document.get("name"), document.get("namespace")
        found = await asyncio.to_thread(
            instances.all_problems,
            template.content.manifest,
            template.content.parameters,
            given if isinstance(given, dict) else {},
            name=wanted if isinstance(wanted, str) else instances.SAMPLE,
            namespace=namespace if isinstance(namespace, str) else None,
            template=name,
            policy=core.policy,
        )
        return _not_told(found, told)


router = APIRouter(prefix="/api/v1", tags=["Templates"], route_class=TemplateRoute)
jobs = APIRouter(tags=["Templates"], route_class=JobFromTemplateRoute)


@router.get("/templates", responses=answers(401, 403, 422, 429, 503))
async def list_templates(
    core: CoreOf,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=2048)] = None,
) -> TemplateListAnswer:
    """List templates, newest first: those whose manifests name no namespace, or one of the caller's.

    Where there are many that he doesn't see, a page may be shorter than `limit` and the list go on all the same.
    """
    page = await core.templates.page(limit=limit, cursor=cursor, sees=partial(_visible, caller))
    found = [TemplateSummary.of(head) for head in page.heads]
    return TemplateListAnswer(timestamp=core.clock.now(), count=len(found), templates=found, next_cursor=page.cursor)


@router.post("/templates", status_code=201, responses=answers(401, 403, 409, 413, 422, 429, 503))
async def create_template(body: JobTemplateRequest, core: CoreOf, caller: Submitter) -> TemplateMessageAnswer:
    """Make a template. It is checked now, filled with its defaults; what hangs on required parameters is checked when it is used.

    One whose manifest names a namespace is seen and used by the callers of that namespace only.
    """
    content = await _checked(core, caller, body.name, body)
    made = await core.templates.create(body.name, content, at=core.clock.now(), by=caller.name)
    record = TemplateRecord.read(made)
    return TemplateMessageAnswer(timestamp=core.clock.now(), message=f"Template '{body.name}' created", template=record)


@router.get("/templates/{name}", responses=answers(401, 403, 404, 422, 429, 503))
async def get_template(
    name: str, core: CoreOf, caller: Reader, version: Annotated[int | None, Query(ge=1, le=999_999)] = None
) -> TemplateAnswer:
    """The newest version of a template, or an older one. Those of a deleted template can be read by their numbers, which jobs name."""
    return TemplateAnswer(timestamp=core.clock.now(), template=TemplateRecord.read(await _seen(core, caller, name, version)))


@router.put("/templates/{name}", responses=answers(401, 403, 404, 409, 413, 422, 429, 503))
async def update_template(name: str, body: JobTemplateUpdate, core: CoreOf, caller: Submitter) -> TemplateMessageAnswer:
    """Make the next version of a template (an addition). Older ones stay; only its maker, or a caller of all namespaces, may change it."""
    _known(name)
    content = await _checked(core, caller, name, body)
    made = await core.templates.replace(name, content, at=core.clock.now(), by=caller.name, allowed=_may_change(caller))
    message = f"Template '{name}' is at version {made.head.version}"
    return TemplateMessageAnswer(timestamp=core.clock.now(), message=message, template=TemplateRecord.read(made))


@router.delete("/templates/{name}", responses=answers(401, 403, 404, 409, 422, 429, 503))
async def delete_template(name: str, core: CoreOf, caller: Submitter) -> MessageAnswer:
    """Delete a template. Its versions stay for the jobs that name them, and one of its name that is made later counts on."""
    _known(name)
    await core.templates.delete(name, at=core.clock.now(), allowed=_may_change(caller))
    return MessageAnswer(timestamp=core.clock.now(), message=f"Template '{name}' deleted")


@jobs.post(
    "/jobs/from-template/{name}",
    status_code=201,
    response_model=JobFromTemplateAnswer,
    responses={**answers(401, 403, 404, 409, 413, 422, 429, 502, 503), **_FAILED},
)
async def create_job_from_template(
    name: str, body: JobFromTemplateRequest, core: CoreOf, caller: Submitter, request: Request
) -> JobFromTemplateAnswer | Response:
    """Fill a template and apply what comes of it, by the rules of every other way in.

    Problems at `/manifest` are of the filled manifest. An active Job of that name is a 409, a finished one is replaced.
    """
    template = await _seen(core, caller, name)
    made = await asyncio.to_thread(
        instances.instance,
        template.content.manifest,
        template.content.parameters,
        body.parameters or {},
        name=body.name,
        namespace=body.namespace,
        template=name,
        policy=core.policy,
    )
    annotations = {names.TEMPLATE: template.reference}
    try:
        outcome = await apply(core, caller, [made.manifest], namespace=body.namespace, pointer=instances.MANIFEST, annotations=annotations)
    except InvalidError as invalid:
        raise InvalidError(_in_the_manifest(made, problem) for problem in invalid.problems) from None
    except TooLargeError as large:
        raise TooLargeError("the filled manifest", large.size, large.limit, pointer=instances.MANIFEST) from None
    [applied] = outcome.resources
    told = JobFromTemplateAnswer(
        **env(core),
        template=name,
        template_version=template.head.version,
        kind=applied.kind,
        job_name=applied.name,
        namespace=applied.namespace,
        uid=applied.uid,
        success=outcome.success,
        parameters_applied=made.parameters,
        errors=outcome.errors or None,
    )
    return told if outcome.success else failed(request, told, JobFromTemplateFailure, outcome.errors)


router.include_router(jobs)


async def _checked(core: Core, caller: Caller, name: str, body: TemplateContent) -> Content:
    """The content of a body. Raises InvalidError with all that is wrong with it, TooLargeError; ForbiddenError for another's namespace."""
    content = body.content()
    problems = await asyncio.to_thread(instances.check_template, name, content.manifest, content.parameters, policy=core.policy)
    if problems:
        raise InvalidError(problems)
    size, limit = len(canonical(content.model_dump())), core.policy.max_specification_bytes
    if size > limit:
        raise TooLargeError("the template with its parameters", size, limit, pointer="/parameters")
    if content.namespace is not None:
        caller.require_namespace(content.namespace)
    return content


def _visible(caller: Caller, head: TemplateHead) -> bool:
    return head.namespace is None or caller.sees(head.namespace)


async def _seen(core: Core, caller: Caller, name: str, version: int | None = None) -> Template:
    """A template that the caller may see. Raises NotFoundError for any other, in the words for what isn't there."""
    _known(name)
    found = await core.templates.get(name, version)
    if not _visible(caller, found.head):
        raise NotFoundError("Template", name if version is None else f"{name}@{version}")
    return found


def _too_many(parameters: object) -> bool:
    """Whether these are parameters that are refused as a whole, and not looked at one by one."""
    return isinstance(parameters, dict) and len(parameters) > MAX_PARAMETERS


def _known(name: str) -> None:
    """Raises NotFoundError for what can be no template's name, without a look into the table."""
    if not instances.is_name(name):
        raise NotFoundError("Template", name)


def _may_change(caller: Caller) -> Callable[[TemplateHead], None]:
    def allowed(head: TemplateHead) -> None:
        if not _visible(caller, head):
            raise NotFoundError("Template", head.name)
        if head.created_by != caller.name:
            caller.require_all_namespaces(f"template '{head.name}', which {head.created_by} has made,")

    return allowed


def _not_told(found: Iterable[Problem], told: Iterable[Mapping[str, Any]]) -> tuple[Problem, ...]:
    known = {"".join(step(part) for part in one["loc"][1:]) for one in told}
    return tuple(problem for problem in found if problem.pointer not in known)


def _in_the_manifest(made: instances.Instance, problem: Problem) -> Problem:
    rest = problem.pointer.removeprefix(_APPLIED_AT)
    return made.as_asked(replace(problem, pointer=f"{instances.MANIFEST}{rest}")) if rest != problem.pointer else problem
