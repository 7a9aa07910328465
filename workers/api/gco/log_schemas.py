"""Bodies of the GCO door's logs. `pods`, `truncated` and everything that is followed are additions to the original."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field

from workers.api.gco.schemas import Env


class PodLogPart(BaseModel):
    """The log of one of several pods; `error` says why there is none."""

    pod_name: str
    container: str
    logs: str
    error: str | None = None


class JobLogsAnswer(Env):
    """The log of a Job's pods. With several, `pod_name` is the newest, and `logs` has all of them, each behind `==> pod/container <==`."""

    job_name: str
    namespace: str
    pod_name: str
    container: str
    available_containers: list[str]
    init_containers: list[str]
    previous: bool
    tail_lines: int
    logs: str
    pods: list[PodLogPart] | None = Field(default=None, description="Each pod's own part, the oldest first; only where there are several.")
    truncated: bool | None = Field(default=None, description="True where older pods, or the beginnings of logs, were left out.")


class PodLogsAnswer(Env):
    """The log of one pod of a Job."""

    job_name: str
    namespace: str
    pod_name: str
    container: str
    logs: str
    truncated: bool | None = Field(default=None, description="True where the beginning of the log was left out.")


EVENTS: Final[dict[str, Any]] = {
    "text/event-stream": {
        "schema": {
            "type": "string",
            "description": (
                "With `follow=true`: one event for each line, with JSON data `{pod, container, line, timestamp}` and an id, from which a "
                "client that sends it as Last-Event-ID goes on without a lost or doubled line. Others by their event type: `container` "
                "{pod, container} when one is followed from now on, `notice` {pod, container, message, loss}, and last of all `end` "
                "{outcome, reason, message, whole}. A stream that ends without it is to be taken up again."
            ),
        }
    }
}
"""The content of a log that is followed, for the description of the API."""
