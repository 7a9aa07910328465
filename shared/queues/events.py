"""Messages of the queue `events`: an event of a job that somebody subscribes to. They say which, never what: that stands in the table."""

from __future__ import annotations

import json
from dataclasses import dataclass

from shared.errors import InvalidError, Problem
from shared.ids import is_job_id
from shared.jobs.model import Event
from shared.queues.queue import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class EventMessage:
    """Which event: of which job, and its number."""

    job_id: str
    number: int


def body_of(event: Event) -> str:
    """The body of an event's message, far below 2 KiB. `namespace` and `type` are for whoever looks at a queue."""
    return json.dumps({"job_id": event.job_id, "number": event.number, "namespace": event.namespace, "type": event.type.value})


def parse(message: Message) -> EventMessage:
    """The event that a message names. Raises InvalidError."""
    try:
        document = json.loads(message.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidError([Problem(pointer="", value=message.body, rule="must be a JSON object")])
    job_id, number = document.get("job_id"), document.get("number")
    problems = []
    if not isinstance(job_id, str) or not is_job_id(job_id):
        problems.append(Problem(pointer="/job_id", value=job_id, rule="must be the id of a job"))
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number < 10**8:
        problems.append(Problem(pointer="/number", value=number, rule="must be the number of an event, from 1"))
    if problems:
        raise InvalidError(problems)
    return EventMessage(job_id=str(job_id), number=int(document["number"]))
