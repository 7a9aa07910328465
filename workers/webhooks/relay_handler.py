"""The relay on AWS Lambda, behind the table's stream, filtered to inserted `EVENT#` items, with `ReportBatchItemFailures`.

By itself, since it sends nothing to anybody outside: it has no use for HTTP, for secrets, and for the rights to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import structlog

from shared.aws import connect
from shared.errors import FleetError
from shared.settings import Settings
from shared.store.streams import told
from workers.lambdas import Answer, Container, failed
from workers.webhooks.relay import SERVICES, Relay, build

log = structlog.get_logger()


async def _start(settings: Settings, stack: AsyncExitStack) -> Relay:
    return await build(settings, await stack.enter_async_context(connect(settings.control_region, *SERVICES)))


_container = Container(_start, worker="webhooks-relay")


def handler(event: Mapping[str, Any], _context: Any) -> Answer:
    """Pass on a batch of records of the table's stream."""
    return _container.run(lambda relay: answer(relay, event))


async def answer(relay: Relay, event: Mapping[str, Any]) -> Answer:
    """The partial batch response of a stream: all or none, so that what comes again begins where it failed."""
    records = [told(record) for record in event.get("Records", ())]
    try:
        await relay.pass_on([record.event for record in records if record.event is not None])
    except FleetError as error:
        log.warning("events not passed on yet", count=len(records), error=str(error))
        return failed([records[0].sequence])
    return failed([])
