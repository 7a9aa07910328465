"""The job that is submitted again and again, and what a fleet is asked about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bench.stage import NAMESPACE, REGION, Fleet
from shared.jobs.states import State
from shared.jobs.submission import JobRequest
from shared.store.counters import Counters

DURATION = 10.0
"""Seconds that a job runs on the simulated cluster: long enough that the observer sees it run, however slow the emulator is. A job that
ended before anybody saw it run would save a write, and flatter the count."""


def manifest(*, duration: float = DURATION) -> dict[str, Any]:
    """A job of one container without a GPU, of the size that people write."""
    container = {
        "name": "main",
        "image": "nvcr.io/nvidia/pytorch:25.01-py3",
        "command": ["python", "train.py", "--epochs", "3", "--batch-size", "64"],
        "env": [{"name": "EPOCHS", "value": "3"}, {"name": "PYTHONUNBUFFERED", "value": "1"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    annotations = {"simulation.gpufleet.io/duration": str(duration)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"team": "vision"}, "annotations": annotations},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def request(*, duration: float = DURATION) -> JobRequest:
    """A submission of that job."""
    return JobRequest(manifest=manifest(duration=duration), region=REGION, namespace=NAMESPACE)


def submission() -> dict[str, Any]:
    """The same as the body of a request to the API."""
    return {"manifest": manifest(), "target_region": REGION, "namespace": NAMESPACE, "labels": {"team": "vision"}}


async def at_a_time(concurrency: int, count: int, work: Callable[[int], Awaitable[Any]]) -> list[Any]:
    """Do something `count` times, `concurrency` at a time."""
    free = asyncio.Semaphore(concurrency)

    async def one(number: int) -> Any:
        async with free:
            return await work(number)

    return await asyncio.gather(*(one(number) for number in range(count)))


async def counts(fleet: Fleet) -> dict[State, int]:
    """Jobs by state, read past every tap."""
    table = type(fleet.core.table)(fleet.aws.dynamodb, fleet.settings.table)
    return (await Counters(table, fleet.core.layout).by_region([REGION]))[REGION]


async def until_succeeded(fleet: Fleet, jobs: int, *, seconds: float = 240.0) -> None:
    """Wait until so many jobs have succeeded. Raises TimeoutError with what they are instead."""
    found: dict[State, int] = {}
    try:
        async with asyncio.timeout(seconds):
            while found.get(State.SUCCEEDED, 0) < jobs:
                await asyncio.sleep(0.5)
                found = await counts(fleet)
    except TimeoutError as error:
        raise TimeoutError(f"of {jobs} jobs after {seconds:.0f} s: { {state.value: n for state, n in found.items() if n} }") from error
