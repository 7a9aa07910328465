"""The metrics worker on AWS Lambda: scrapes what a schedule asks for, as `{"task": "scrape", "region": R}`.

The event is such a document itself (an EventBridge schedule that calls the function), or a batch of SQS records of the queue `scrapes`
with `ReportBatchItemFailures`. Without `region` all of them are scraped. Nobody serves `/metrics` there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import structlog

from shared.aws import connect
from shared.errors import FleetError, InvalidError, Problem
from shared.settings import Settings
from workers.lambdas import Answer, Container, failed, messages_of
from workers.metrics.build import SERVICES, build
from workers.metrics.scrapes import Scrapes

log = structlog.get_logger()

TASK: Final = "scrape"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What an invocation works with."""

    scrapes: Scrapes
    regions: Sequence[str]


async def _start(settings: Settings, stack: AsyncExitStack) -> Parts:
    aws = await stack.enter_async_context(connect(settings.control_region, *SERVICES))
    scrapes, _ = build(settings, aws, stack)
    return Parts(scrapes=scrapes, regions=settings.regions)


_container = Container(_start, worker="metrics")


def handler(event: Mapping[str, Any], _context: Any) -> Answer | dict[str, Any]:
    """Scrape what an event asks for."""
    return _container.run(lambda parts: answer(parts, event))


async def answer(parts: Parts, event: Mapping[str, Any]) -> Answer | dict[str, Any]:
    """Of SQS records the partial batch response; else the regions that were scraped.

    A message that asks for something else comes again and ends among the dead letters. An event of a schedule raises InvalidError for
    that, and UnavailableError where no region could be scraped, so that Lambda counts it as failed.
    """
    if "Records" in event:
        return await _batch(parts, event)
    regions = _regions(event, parts.regions)
    outcomes = await _scrape_all(parts.scrapes, regions)
    failures = [error for error in outcomes.values() if error is not None]
    if len(failures) == len(regions):
        raise failures[0]
    return {"scraped": [region for region, error in outcomes.items() if error is None], "failed": len(failures)}


async def _batch(parts: Parts, event: Mapping[str, Any]) -> Answer:
    wanted: dict[str, Sequence[str]] = {}
    left: list[str] = []
    for message in messages_of(event):
        try:
            wanted[message.id] = _regions(_document(message.body), parts.regions)
        except InvalidError as error:
            log.warning("no task of this worker", message=message.id, error=str(error))
            left.append(message.id)
    # What was asked for several times, since the worker was away, is done once: only the present can be measured.
    outcomes = await _scrape_all(parts.scrapes, list(dict.fromkeys(region for regions in wanted.values() for region in regions)))
    left += [message for message, regions in wanted.items() if any(outcomes[region] is not None for region in regions)]
    return failed(left)


async def _scrape_all(scrapes: Scrapes, regions: Sequence[str]) -> dict[str, FleetError | None]:
    async def one(region: str) -> FleetError | None:
        try:
            await scrapes.scrape(region)
        except FleetError as error:
            log.warning("scrape failed", region=region, error=str(error))
            return error
        return None

    return dict(zip(regions, await asyncio.gather(*(one(region) for region in regions)), strict=True))


def _document(body: str) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidError([Problem(pointer="", value=body[:100], rule="must be a JSON object")])
    return found


def _regions(document: Mapping[str, Any], known: Sequence[str]) -> Sequence[str]:
    task, region = document.get("task"), document.get("region")
    problems = []
    if task != TASK:
        problems.append(Problem(pointer="/task", value=task, rule=f"must be {TASK}"))
    if region is not None and region not in known:
        problems.append(Problem(pointer="/region", value=region, rule=f"must be one of {', '.join(known)}"))
    if problems:
        raise InvalidError(problems)
    return known if region is None else [region]
