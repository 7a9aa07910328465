"""Jobs whose pods do as a test says, and what the API tells of one: the Job, its events, its pods and what they use."""

from __future__ import annotations

import asyncio

from tests.integration.region import SIMULATION

NAMESPACE = "gco-jobs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
VIEWS = ("", "/events", "/pods", "/metrics")


def job(name="train", *, limits=None, pod=None, steer=None, env=(), **spec):
    """A Job whose pods run until they are told otherwise."""
    steering = {"hang": "true"} if steer is None else steer
    container = {"name": "main", "image": "pytorch/pytorch:2.5", "env": list(env), "resources": {"limits": limits or {"cpu": "1"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"team": "vision"}},
        "spec": {
            "backoffLimit": 0,
            **spec,
            "template": {
                "metadata": {"annotations": {SIMULATION + key: value for key, value in steering.items()}},
                "spec": {"restartPolicy": "Never", "tolerations": [GPU], "containers": [container], **(pod or {})},
            },
        },
    }


async def start(region, *args, **options):
    return await region.api.request("POST", JOBS, body=job(*args, **options))


async def view(client, name="train", what=""):
    answer = await client.get(f"/api/v1/jobs/{NAMESPACE}/{name}{what}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def until(client, holds, name="train", what=""):
    """Ask until the answer is as it is to be."""
    async with asyncio.timeout(15):
        while not holds(found := await view(client, name, what)):
            await asyncio.sleep(0.05)
    return found


def running(number):
    def holds(found):
        return [pod["status"]["phase"] for pod in found["pods"]] == ["Running"] * number

    return holds


def reasons(found, kind=None):
    return {event["reason"] for event in found["events"] if kind in (None, event["involvedObject"]["kind"])}
