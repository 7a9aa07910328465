"""An observer's account of usage, from a cluster over the wire to the bucket and back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.clusters.feeds import OTHERS, OURS
from shared.costs.allocation import allocate
from shared.costs.model import CapacityType, RowKind, Window, exact_sum
from shared.costs.prices import machine_of
from shared.costs.timeline import cost_of_nodes
from shared.costs.usage import Usage
from shared.costs.usage_documents import hour_of
from shared.costs.usage_reader import UsageReader
from shared.errors import UnavailableError
from shared.jobs.states import State
from tests.integration.region import REGION, Region, job, running_region
from tests.unit.costs.builders import rate

ONE_SECOND = timedelta(seconds=1)
"""Times of a cluster are whole seconds; what was there for less may have been for nothing."""


@pytest.fixture
async def region(fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path, usage_write_seconds=1) as found:
        yield found


def account(region: Region) -> Any:
    return region.usage_account()


def window() -> Window:
    """The hour that runs and the one before it: a test may begin at the end of an hour."""
    return Window(hour_of(datetime.now(UTC)) - timedelta(hours=1), hour_of(datetime.now(UTC)) + timedelta(hours=1))


async def usage(region: Region) -> Usage:
    return await UsageReader(objects=region.core.objects, clock=region.core.clock).usage(REGION, window())


async def until(region: Region, condition: Any) -> Usage:
    async with asyncio.timeout(20):
        while not condition(found := await usage(region)):
            await asyncio.sleep(0.1)
    return found


def of_job(found: Usage, job_id: str) -> list[Any]:
    return [pod for pod in found.pods if pod.job_id == job_id]


def told_by_cluster(pod: Any) -> bool:
    """Whether its end is the cluster's, in whole seconds, and not the last time that an observer saw it."""
    return pod.end is not None and pod.end.microsecond == 0


async def test_what_a_job_used_stands_in_the_bucket_and_adds_up(region):
    await region.dispatcher()
    await region.observer(account(region))
    head = await region.submit(manifest=job(duration=1.2), labels={"team": "vision"}, submitted_by="ada")
    await region.until(head.id, State.SUCCEEDED)
    found = await until(region, lambda found: any(map(told_by_cluster, of_job(found, head.id))))
    (pod,) = of_job(found, head.id)
    assert (pod.namespace, pod.execution, pod.submitted_by, pod.labels) == ("gco-jobs", 1, "ada", {"team": "vision"})
    assert (str(pod.cores), pod.memory_bytes, pod.gpus) == ("0.010", 16 * 2**20, 0)
    assert pod.end >= pod.start
    kinds = {(node.instance_type, node.capacity_type, str(node.cores), node.gpus) for node in found.nodes}
    assert kinds == {("g5.12xlarge", CapacityType.SPOT, "48", 4), ("m5.4xlarge", CapacityType.ON_DEMAND, "16", 0)}
    assert {node.zone for node in found.nodes} <= {f"{REGION}{letter}" for letter in "abc"}
    rates = {machine_of(node): [rate("3.6", window().start)] for node in found.nodes}
    rows = allocate(found.nodes, found.pods, rates, found.window)
    assert exact_sum(row.total_cost for row in rows) == cost_of_nodes(found.nodes, rates, found.window)
    assert {row.job_id for row in rows if row.kind is RowKind.JOB} == {head.id}


async def test_a_job_that_runs_is_told_while_it_runs_and_an_observer_that_stops_tells_all_it_knows(region):
    await region.dispatcher()
    observer = await region.observer(account(region))
    head = await region.submit(manifest=job(duration=60))
    await region.until(head.id, State.RUNNING)
    await until(region, lambda found: of_job(found, head.id))
    before = datetime.now(UTC)
    await observer.stop()
    found = await usage(region)
    (pod,) = of_job(found, head.id)
    assert pod.end is not None  # the last time it was seen
    assert pod.end >= before
    assert found.gaps[-1].start >= before
    assert not found.final


async def test_an_observer_that_is_killed_and_its_successor_tell_of_one_pod(region):
    await region.dispatcher()
    first = await region.observer(account(region))
    head = await region.submit(manifest=job(duration=2.5))
    await until(region, lambda found: of_job(found, head.id))
    await first.kill()
    await region.observer(account(region))
    async with asyncio.timeout(20):
        while len({one.key for one in await region.core.objects.listed("usage/")}) < 2:  # one of each observer
            await asyncio.sleep(0.05)
    found = await until(region, lambda found: any(map(told_by_cluster, of_job(found, head.id))))
    (pod,) = of_job(found, head.id)
    assert timedelta(seconds=1) <= pod.end - pod.start <= timedelta(seconds=6)
    assert len(found.nodes) == 6


async def test_a_node_that_goes_and_its_pods_end(region):
    await region.dispatcher()
    await region.observer(account(region))
    head = await region.submit(manifest=job(duration=60))
    await region.until(head.id, State.RUNNING)
    (pod,) = of_job(await until(region, lambda found: of_job(found, head.id)), head.id)
    region.cluster.interrupt_node(pod.node, returns=False)

    def gone_before(found: Usage) -> bool:
        others = [node.end for node in found.nodes if node.name != pod.node]
        return all(node.end + timedelta(seconds=1) < max(others) for node in found.nodes if node.name == pod.node)

    (gone,) = [node for node in (await until(region, gone_before)).nodes if node.name == pod.node]
    assert gone.end >= pod.start


async def test_an_interrupted_job_pays_for_what_it_had_on_both_nodes(region):
    await region.dispatcher()
    await region.observer(account(region))
    head = await region.submit(manifest=job(duration=60))

    def has_run(execution: int) -> Any:
        return lambda found: any(pod.execution == execution and pod.end - pod.start > ONE_SECOND for pod in of_job(found, head.id))

    (pod,) = of_job(await until(region, has_run(1)), head.id)
    region.cluster.interrupt_node(pod.node, returns=False)
    found = await until(region, has_run(2))
    rates = {machine_of(node): [rate("3.6", window().start)] for node in found.nodes}
    rows = allocate(found.nodes, found.pods, rates, found.window)
    assert exact_sum(row.total_cost for row in rows) == cost_of_nodes(found.nodes, rates, found.window)
    assert {row.execution: row.total_cost > 0 for row in rows if row.job_id == head.id} == {1: True, 2: True}
    assert len({pod.node for pod in of_job(found, head.id)}) == 2


async def test_no_pods_of_others_are_watched_unless_that_is_asked_for(region, monkeypatch):
    watched = watches(region, monkeypatch)
    await region.dispatcher()
    await others_job(region)
    await region.observer(account(region))
    head = await region.submit(manifest=job(duration=0.1))
    await region.until(head.id, State.SUCCEEDED)
    found = await until(region, lambda found: of_job(found, head.id))
    assert (found.all_pods, {pod.job_id for pod in found.pods}) == (False, {head.id})
    assert sorted(set(watched)) == ["/api/v1/nodes", f"/api/v1/pods {OURS}", f"/apis/batch/v1/jobs {OURS}"]


async def test_where_all_pods_are_watched_those_of_others_are_told_without_their_labels(fleet_resources, tmp_path, monkeypatch):
    async with running_region(fleet_resources, tmp_path, usage_write_seconds=1, usage_all_pods=True) as region:
        watched = watches(region, monkeypatch)
        await region.dispatcher()
        await region.observer(account(region))
        head = await region.submit(manifest=job(duration=0.1))
        await others_job(region)
        found = await until(region, lambda found: of_job(found, head.id) and of_job(found, None))
        assert found.all_pods
        (other,) = of_job(found, None)
        assert (other.namespace, other.labels, other.execution, other.submitted_by) == ("gco-jobs", {}, None, None)
        assert set(watched) == {"/api/v1/nodes", f"/api/v1/pods {OURS}", f"/api/v1/pods {OTHERS}", f"/apis/batch/v1/jobs {OURS}"}


def watches(region: Region, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths and selectors of all watches from now on."""
    found: list[str] = []
    stream = region.api.stream

    def noted(path: str, *, query: Any, **options: Any) -> Any:
        if query.get("watch"):
            found.append(f"{path} {query.get('labelSelector', '')}".strip())
        return stream(path, query=query, **options)

    monkeypatch.setattr(region.api, "stream", noted)
    return found


async def others_job(region: Region) -> None:
    """A Job that isn't the fleet's, with one pod."""
    body = job("others", duration=30)
    body["spec"]["template"]["metadata"]["labels"] = {"app": "others"}
    await region.api.request("POST", "/apis/batch/v1/namespaces/gco-jobs/jobs", body=body)


async def test_a_bucket_that_is_away_for_a_while_loses_nothing(region):
    await region.dispatcher()
    found_account = account(region)
    real, failures = found_account._objects, []

    class Away:
        async def put(self, *arguments: Any, **options: Any) -> None:
            if len(failures) < 2:
                failures.append(arguments[0])
                raise UnavailableError("away")
            await real.put(*arguments, **options)

    found_account._objects = Away()
    await region.observer(found_account)
    head = await region.submit(manifest=job(duration=0.1))
    await region.until(head.id, State.SUCCEEDED)
    await until(region, lambda found: of_job(found, head.id))
    assert len(failures) == 2
