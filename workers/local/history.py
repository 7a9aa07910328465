"""What really ran: the simulated clusters' own list of every pod whose containers started, and what it proves.

It comes from the clusters and not from the table, so a fleet that told itself a story would be found out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

JOB_ID = "gpufleet.io/job-id"
EXECUTION = "gpufleet.io/execution"


@dataclass(kw_only=True)
class Ran:
    """One execution as the clusters saw it: the UIDs of the Jobs that ran for it, and its pods."""

    job_id: str
    execution: int
    objects: set[str] = field(default_factory=set)
    pods: list[str] = field(default_factory=list)


def executions(started: Iterable[Mapping[str, Any]]) -> list[Ran]:
    """The executions behind the entries of `GET /_started`, of one cluster or of several together."""
    found: dict[tuple[str, int], Ran] = {}
    for entry in started:
        annotations = entry["annotations"]
        if JOB_ID not in annotations:
            continue
        key = annotations[JOB_ID], int(annotations[EXECUTION])
        ran = found.setdefault(key, Ran(job_id=key[0], execution=key[1]))
        ran.objects.add(entry["job_uid"])
        ran.pods.append(entry["pod_name"])
    return list(found.values())


def started_twice(ran: Iterable[Ran], pods: Mapping[str, int]) -> list[str]:
    """Every execution that started more than once, in words. `pods` says how many pods one execution of a job has (1 where it is silent).

    Only for jobs whose pods are never tried again within an execution (`backoffLimit: 0`): then every pod more than that is a second start.
    """
    wrong = []
    for one in ran:
        if len(one.objects) > 1:
            wrong.append(f"job {one.job_id} execution {one.execution}: {len(one.objects)} objects ran: {', '.join(sorted(one.objects))}")
        elif len(one.pods) > pods.get(one.job_id, 1):
            wrong.append(f"job {one.job_id} execution {one.execution}: {len(one.pods)} pods ran: {', '.join(sorted(one.pods))}")
    return wrong


def count_by_job(ran: Iterable[Ran]) -> dict[str, int]:
    """How many executions of each job ran."""
    counts: dict[str, int] = defaultdict(int)
    for one in ran:
        counts[one.job_id] += 1
    return dict(counts)


async def read(ports: Iterable[int]) -> list[Mapping[str, Any]]:
    """Everything that the clusters on these ports of the loopback interface have started."""
    import httpx

    found: list[Mapping[str, Any]] = []
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        for port in ports:
            response = await client.get(f"http://127.0.0.1:{port}/_started")
            response.raise_for_status()
            found += json.loads(response.content)
    return found
