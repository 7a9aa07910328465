"""What somebody is told of: each condition of the fleet, or of each of its regions, in words. The stacks make an alarm of each.

Its runbook is in docs/operations.md, under `alarm-<name>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One condition: what it means and what to do first. `each_region`: there is an alarm for each region."""

    name: str
    meaning: str
    action: str
    each_region: bool = False

    @property
    def runbook(self) -> str:
        """Where its runbook is."""
        return f"docs/operations.md#alarm-{self.name}"


CONDITIONS: Final = (
    Condition(
        name="ready-oldest",
        each_region=True,
        meaning="A job could be claimed and isn't.",
        action="See whether the dispatchers' pods run and reach its queue; a region that is full keeps jobs ready too.",
    ),
    Condition(
        name="overdue",
        each_region=True,
        meaning="A due mark has passed and nobody has looked: the sweeper doesn't get to it.",
        action="Read the sweeper's log; an error there names the job.",
    ),
    Condition(
        name="claims",
        each_region=True,
        meaning="A job has been claimed for longer than a lease and isn't committed: its worker is gone, or its cluster doesn't answer.",
        action="See the dispatcher's log and the cluster's API server; the sweeper gives the job to another worker meanwhile.",
    ),
    Condition(
        name="observed",
        each_region=True,
        meaning="Nobody has told of the cluster: its jobs run on, but nothing of them is noticed.",
        action="See whether the observer's pod runs, and whether the API server answers it.",
    ),
    Condition(
        name="scrapes",
        each_region=True,
        meaning="The GPUs have not been read.",
        action="Read the log of the metrics function: it names the cluster that it doesn't reach.",
    ),
    Condition(
        name="exporters",
        each_region=True,
        meaning="Exporters of GPUs don't answer, so that what their nodes do isn't known.",
        action="Read the log of the metrics function: it names each with its node and what was wrong; see whether its pod runs.",
    ),
    Condition(
        name="unwatched",
        meaning="Nobody reads the fleet's health, or a part of it can't be read: other alarms see nothing.",
        action="`gpufleet health` names the parts that are unread, or of which nobody ever told; read the health function's log.",
    ),
    Condition(
        name="dead-letters",
        meaning="A message could not be handled and is among the dead letters.",
        action="`gpufleet dead-letters list QUEUE`; redrive what was no fault of the message, discard the rest.",
    ),
    Condition(
        name="submissions",
        meaning="Messages wait in the submissions queue.",
        action="Read the log of the ingest function; look for throttles of Lambda.",
    ),
    Condition(
        name="deliveries",
        meaning="Webhooks are told later than they should be.",
        action="Read the logs of the functions webhooks-relay, webhooks and webhooks-sweep; an endpoint that fails delays only its own.",
    ),
    Condition(
        name="webhooks-disabled",
        meaning="A webhook was disabled, since its endpoint has taken nothing for a day.",
        action="Tell its owner; `gpufleet webhooks enable ID` when the endpoint is mended, then `redeliver --failed`.",
    ),
    Condition(
        name="api-errors",
        meaning="Requests to the API fail within it.",
        action="Find the requests in the access log by their status, and their ids in the log of the API's function.",
    ),
    Condition(
        name="api-latency",
        meaning="One request in a hundred takes too long.",
        action="Compare with the function's duration: cold starts, throttles of the table, or a cluster that answers slowly.",
    ),
    Condition(
        name="throttles",
        meaning="DynamoDB (the table or an index of it) or Lambda refuses requests.",
        action="`ready`, `due`: more shards, read (`GPUFLEET_READY_SHARDS_READ`) before written. Lambda: the account's concurrency.",
    ),
    Condition(
        name="costs",
        meaning="Cost reports are not made: calls fail, or there are none.",
        action="See whether the costs function's schedule is enabled, and read its log. Nothing is lost: what was missed is made good.",
    ),
)


def named(name: str) -> Condition:
    """The condition of a name. Raises KeyError."""
    return {one.name: one for one in CONDITIONS}[name]
