"""Watching jobs to their end: asks again and again, more slowly while nothing happens, and tells what has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workers.cli import output
from workers.cli.client import FleetClient
from workers.cli.failures import CommandError, ExitCode
from workers.cli.records import TERMINAL, event_row, state_of

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 5.0
_PATIENCE = 8
"""How many times in a row the API may be away (a restart, a deployment) before a watch gives up; about half a minute."""

Pause = Callable[[float], None]
Ended = Callable[[Mapping[str, Any]], None]


def watch(
    client: FleetClient, job_ids: Sequence[str], *, quiet: bool, ended: Ended = lambda _: None, pause: Pause = time.sleep
) -> dict[str, Mapping[str, Any]]:
    """Follow jobs until all have ended; returns their last records by id. Unless quiet, each event is a line on standard error.

    `ended` is called with the record of each job as it ends.
    """
    watches = {job_id: _Watch(client, job_id, quiet=quiet, named=len(job_ids) > 1) for job_id in job_ids}
    seconds, failures = FIRST_PAUSE, 0
    while True:
        news = False
        try:
            for one in watches.values():
                if one.look():
                    news = True
                    if one.ended:
                        ended(one.record)
            failures = 0
        except CommandError as error:
            failures += 1
            if error.code != ExitCode.UNREACHABLE or failures > _PATIENCE:
                raise
        if all(one.ended for one in watches.values()):
            return {job_id: one.record for job_id, one in watches.items()}
        seconds = FIRST_PAUSE if news else min(seconds * 1.5, LONGEST_PAUSE)
        pause(seconds)


class _Watch:
    """What has been told of one job."""

    def __init__(self, client: FleetClient, job_id: str, *, quiet: bool, named: bool) -> None:
        self._client = client
        self._id = job_id
        self._quiet = quiet
        self._named = named
        self._told = 0
        self._revision: Any = None
        self.record: Mapping[str, Any] = {}

    @property
    def ended(self) -> bool:
        """Whether the job is in a state that it never leaves."""
        return state_of(self.record) in TERMINAL

    def look(self) -> bool:
        """Ask for news; whether there were any."""
        if self.ended:
            return False
        document = self._client.job(self._id)
        self.record = document.get("job", document)
        changed = (self.record.get("revision"), self.record.get("updated_at"), state_of(self.record))
        if changed == self._revision:
            return False
        self._revision = changed
        if not self._quiet:
            self._tell()
        return True

    def _tell(self) -> None:
        events = [event for event in self._client.events(self._id).get("events", []) if int(event["number"]) > self._told]
        for event in sorted(events, key=lambda event: int(event["number"])):
            self._told = int(event["number"])
            _, at, kind, state, execution, why = event_row(event)
            prefix = f"{self._id}  " if self._named else ""
            output.say(f"{prefix}{at}  {kind:<14} {state:<9} execution {execution}{f'  {why}' if why else ''}")
