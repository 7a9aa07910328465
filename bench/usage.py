"""What it costs an observer to keep account of usage: CPU of each event of a pod, and what it keeps of each.

The events are texts as a watch sends them: a pod of some 6 KB, four times each (scheduled, started, running, ended). The one pass does what
every observer does with them (reading, the index of pods), the other one keeps the account, too; both alternate.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.figures import Figure, Options
from shared.clusters.feeds import Where, pod_feed
from shared.clusters.pods import PodIndex
from shared.clusters.watch import Changed, Listed
from shared.costs.ledger import Ledger
from shared.costs.price_table import PriceTable
from shared.costs.usage_documents import encode
from workers.observer.usage import UsageAccount

PODS = 2000
ROUNDS = 9
NOW = datetime(2026, 5, 17, 9, tzinfo=UTC)
WHERE = Where(region="us-east-1", cluster="bench")


class _Now:
    def now(self) -> datetime:
        """Always the same."""
        return NOW


async def run(options: Options) -> list[Figure]:
    """The figures of accounts of usage."""
    rounds = 3 if options.quick else ROUNDS
    lines = [line for number in range(PODS) for line in _events(number)]
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds + 1):
        for keeping in (False, True):
            took, _ = _watched(lines, keeping=keeping)
            if number:
                times[keeping].append(took)
    plain, kept = (statistics.median(times[keeping]) for keeping in (False, True))
    size, written = _kept(lines)
    per_event = (kept - plain) / len(lines) * 1e6
    return [
        Figure(
            name="pod event with account of usage",
            value=kept / plain,
            bound=1.75,
            unit="x without",
            note=f"{len(lines)} events of {len(lines[0]) // 1024} KB; {per_event:.0f} us more each, of {plain / len(lines) * 1e6:.0f} us",
        ),
        Figure(name="kept of a pod", value=size, bound=2048, unit="bytes", note="for its hour and one more"),
        Figure(name="written of a pod", value=written, bound=150, unit="bytes", note="gzipped, each time its hour is written"),
    ]


def _watched(lines: list[bytes], *, keeping: bool) -> tuple[float, Ledger]:
    """CPU seconds of all events, and the ledger that came of them."""
    ledger = Ledger(region=WHERE.region, cluster=WHERE.cluster, observer="bench")
    account = UsageAccount(
        ledger,
        None,  # type: ignore[arg-type]  # nothing is written here
        _Now(),
        prices=PriceTable(),
        write_every=timedelta(minutes=10),
    )
    ledger.nodes.listed([], at=NOW)
    account.pod(Listed(objects=[]))
    ledger.tick(NOW)
    ledger.tick(NOW + timedelta(seconds=15))
    feed = pod_feed(None, usage=WHERE if keeping else None)  # type: ignore[arg-type]  # nothing is asked of a cluster
    index = PodIndex()
    gc.collect()
    began = time.process_time()
    for line in lines:
        item = feed._event(line)
        if isinstance(item, Changed):
            if keeping:
                account.pod(item)
            index.put(item.object)
    return time.process_time() - began, ledger


def _kept(lines: list[bytes]) -> tuple[float, float]:
    """Bytes of memory, and of a written object, for each pod."""
    _watched(lines[:4], keeping=True)
    tracemalloc.start()
    _, ledger = _watched(lines, keeping=True)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / PODS, len(encode(ledger.take(NOW))) / PODS


def _events(number: int) -> list[bytes]:
    moments = [f"2026-05-17T09:{minute:02d}:00Z" for minute in (1, 2, 3, 30)]
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": moments[2], "finishedAt": moments[3]}}
    statuses: list[dict[str, Any]] = [
        {"phase": "Pending"},
        {"phase": "Pending", "startTime": moments[1]},
        {
            "phase": "Running",
            "startTime": moments[1],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": moments[2]}}}],
        },
        {"phase": "Succeeded", "startTime": moments[1], "containerStatuses": [{"name": "main", "state": ended}]},
    ]
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": moments[0]}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return [
        json.dumps({"type": "MODIFIED", "object": {**_pod(number), "status": {"conditions": conditions, **status}}}).encode()
        for status in statuses
    ]


def _pod(number: int) -> dict[str, Any]:
    job_id = f"0198c0de-0000-7000-8000-{number:012d}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{number}-1", "uid": f"job-{number}", "controller": True}
    labels = {"gpufleet.io/managed": "true", "gpufleet.io/job-id": job_id, "gpufleet.io/execution": "1", "team": "vision", "project": "x"}
    env = [{"name": f"VARIABLE_{one}", "value": f"some value of a variable, {one}"} for one in range(24)]
    fields = {f"f:{one}": {"k:{}": {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}} for one in range(30)}
    resources = {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"memory": "64Gi", "nvidia.com/gpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-{number}-1-abcde",
            "namespace": "gco-jobs",
            "uid": f"0198c0de-1111-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-05-17T09:00:30Z",
            "labels": labels,
            "annotations": {"gpufleet.io/job-id": job_id, "gpufleet.io/execution": "1", "gpufleet.io/submitted-by": "key:ada"},
            "ownerReferences": [owner],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:status": fields}}],
        },
        "spec": {
            "nodeName": f"ip-10-0-{number % 40}-1.ec2.internal",
            "containers": [{"name": "main", "image": "pytorch/pytorch:2.9", "env": env, "resources": resources}],
            "tolerations": [{"key": f"key-{one}", "operator": "Exists", "effect": "NoSchedule"} for one in range(5)],
        },
    }
