"""Following a job's logs through the API for as long as the job takes, over restarts of the API and broken connections.

Each line comes with a position. Whoever comes back with that of the last line goes on behind it, with whatever process answers then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from workers.cli.client import FleetClient, LogEvent
from workers.cli.failures import CommandError, ExitCode

PATIENCE_SECONDS: Final = 60.0
"""How long the API may be away (a restart, a deployment) before a follower gives up."""
STOOD_SECONDS: Final = 20.0
"""A stream that stood for longer was one, though the job may have written nothing; no attempt to connect takes so long."""
FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 5.0

Pause = Callable[[float], None]
Now = Callable[[], float]


def follow(client: FleetClient, job_id: str, *, pause: Pause = time.sleep, now: Now = time.monotonic, **choice: Any) -> Iterator[LogEvent]:
    """What there is to tell, until the event `end`, each line once.

    Raises CommandError: what the API refuses, that it can't be reached when it is first asked, or that it has been away for too long.
    """
    position: str | None = None
    seconds, seen, known = FIRST_PAUSE, now(), False
    while True:
        failure, begun = "its streams end at once", now()
        try:
            for event in client.log_events(job_id, after=position, **choice):
                known = True
                if event.kind == "open":
                    continue
                seconds, seen = FIRST_PAUSE, now()
                if event.kind == "again":  # the answer is as long as one may be; there is more
                    continue
                position = event.position or position
                yield event
                if event.kind == "end":
                    return
        except CommandError as error:
            if error.code is not ExitCode.UNREACHABLE or not known:
                raise
            failure = error.message
        # A stream that ends without saying so was cut off: the API is being restarted, or lets its followers come anew now and then.
        if now() - begun > STOOD_SECONDS:
            seconds, seen = FIRST_PAUSE, now()
        if now() - seen > PATIENCE_SECONDS:
            raise CommandError(f"gave up after {PATIENCE_SECONDS:.0f} s without the API: {failure}", code=ExitCode.UNREACHABLE)
        pause(seconds)
        seconds = min(seconds * 1.5, LONGEST_PAUSE)
