"""The webhooks group of the GCO door: registration. Deliveries are made by a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response

from shared.clusters.trees import step
from shared.errors import ForbiddenError, InvalidError, Problem
from shared.identity.callers import Caller
from shared.ids import RandomIds
from shared.webhooks.model import EVENTS, Webhook
from shared.webhooks.registration import secret_rule
from shared.webhooks.urls import UrlRefusedError
from workers.api.bodies import Handler, RefusedRequestError, StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader, Submitter
from workers.api.errors import answers
from workers.api.gco.schemas import MessageAnswer
from workers.api.gco.translation import allowed_namespace
from workers.api.gco.webhook_schemas import WebhookListAnswer, WebhookMessageAnswer, WebhookRecord, WebhookRequest

_SECRET = "/secret"  # noqa: S105 - a place, not a password
_ALL = "a webhook without a namespace"


class WebhookRoute(StrictRoute):
    """A route whose body has a webhook: where other fields are wrong, all that is wrong with the rest is told with them.

    Whatever is wrong with a secret, the secret isn't shown.
    """

    def get_route_handler(self) -> Handler:
        """The route's handler, whose refusals show no secret."""
        handle = super().get_route_handler()

        async def handle_discreetly(request: Request) -> Response:
            try:
                return await handle(request)
            except RefusedRequestError as refused:
                body = [replace(one, value=None) if one.pointer.startswith(_SECRET) else one for one in refused.body]
                raise RefusedRequestError(query=refused.query, fields=refused.fields, body=body, kind=refused.kind) from None

        return handle_discreetly

    async def further(self, request: Request, document: Any, told: Iterable[Mapping[str, Any]]) -> Sequence[Problem]:
        """What the rules of webhooks have against the body."""
        if not isinstance(document, dict):
            return ()
        found = await _problems(request.app.state.core, request.state.caller, document)
        known = {"".join(step(part) for part in one["loc"][1:]) for one in told}
        return tuple(problem for problem in found if problem.pointer not in known)


router = APIRouter(prefix="/api/v1/webhooks", tags=["Webhooks"], route_class=WebhookRoute)


@router.get("", responses=answers(401, 403, 422, 429, 503))
async def list_webhooks(
    core: CoreOf,
    caller: Reader,
    namespace: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=2048)] = None,
) -> WebhookListAnswer:
    """List webhooks, newest first: those of a namespace, or all that the caller may see."""
    namespaces: Sequence[str] | None = None
    if namespace is not None:
        namespaces = [allowed_namespace(core, caller, namespace)]
    elif caller.namespaces is not None:
        namespaces = caller.within(core.policy.allowed_namespaces)
    page = await core.webhooks.page(limit=limit, cursor=cursor, namespaces=namespaces)
    found = [WebhookRecord.of(webhook) for webhook in page.webhooks]
    return WebhookListAnswer(timestamp=core.clock.now(), count=len(found), webhooks=found, next_cursor=page.cursor)


@router.post("", status_code=201, responses=answers(400, 401, 403, 409, 413, 422, 429, 503))
async def create_webhook(body: WebhookRequest, core: CoreOf, caller: Submitter) -> WebhookMessageAnswer:
    """Register a webhook. One without a namespace concerns all of them, and takes a caller of all namespaces.

    A URL that breaks a rule is a 400, unless something else is wrong too.
    """
    problems = await _problems(core, caller, body.model_dump())
    if problems:
        _refuse(core, caller, body.namespace, problems)
    webhook = Webhook(
        id=RandomIds().job(),
        url=core.webhook_urls.parse(body.url).url,  # as it was checked, however it was written
        events=tuple(event for event in EVENTS if event in body.events),
        namespace=body.namespace,
        created_at=core.clock.now(),
        created_by=caller.name,
        signed=body.secret is not None,
    )
    await core.registration.create(webhook, secret=body.secret)
    return WebhookMessageAnswer(timestamp=core.clock.now(), message=f"Webhook '{webhook.id}' created", webhook=WebhookRecord.of(webhook))


@router.delete("/{webhook_id}", responses=answers(401, 403, 404, 422, 429, 503))
async def delete_webhook(webhook_id: str, core: CoreOf, caller: Submitter) -> MessageAnswer:
    """Delete a webhook and its secret. After a 503, delete it again: that finishes what was begun."""
    entry = await core.webhooks.entry(webhook_id)
    _require(caller, entry.namespace)
    await core.registration.delete(entry)
    return MessageAnswer(timestamp=core.clock.now(), message=f"Webhook '{webhook_id}' deleted")


async def _problems(core: Core, caller: Caller, document: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the fields that have a right type."""
    problems = []
    url, namespace, secret = document.get("url"), document.get("namespace"), document.get("secret")
    if isinstance(url, str):
        try:
            await core.webhook_urls.check(url)
        except UrlRefusedError as refused:
            # The embedded fleet may have no resolver to ask. Whoever delivers looks the host up again.
            if not (refused.unresolved and core.settings.webhook_local):
                problems.append(Problem(pointer="/url", value=url, rule=refused.rule))
    if namespace is None or isinstance(namespace, str):
        try:
            _allowed(core, caller, namespace)
        except ForbiddenError as forbidden:
            problems.append(Problem(pointer="/namespace", value=namespace, rule=f"must be one that is allowed: {forbidden}"))
    if secret is not None and (rule := secret_rule(secret)) is not None:
        problems.append(Problem(pointer=_SECRET, value=None, rule=rule))
    return problems


def _refuse(core: Core, caller: Caller, namespace: str | None, problems: Sequence[Problem]) -> None:
    match [problem.pointer for problem in problems]:
        case ["/url"]:
            raise HTTPException(400, detail=f"Invalid webhook URL: {problems[0].rule}")
        case ["/namespace"]:
            _allowed(core, caller, namespace)
    raise InvalidError(problems)


def _allowed(core: Core, caller: Caller, namespace: str | None) -> None:
    """Raises ForbiddenError for a namespace that the policy or the caller's key doesn't allow."""
    if namespace is not None:
        allowed_namespace(core, caller, namespace)
    else:
        caller.require_all_namespaces(_ALL)


def _require(caller: Caller, namespace: str | None) -> None:
    """The caller's right to a webhook that stands, be its namespace still allowed or not."""
    if namespace is not None:
        caller.require_namespace(namespace)
    else:
        caller.require_all_namespaces(_ALL)
