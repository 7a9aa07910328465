"""Conditional writes on Amazon's own DynamoDB: of many that race for one thing, one wins, and all that is told of it agrees.

Its version is old: a refused single update doesn't say what stands there, so that a claim whose answer was lost isn't recognised on it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from shared.jobs import transitions
from shared.jobs.model import Claim, ClusterObject, Head, RetryPolicy
from shared.jobs.ports import LostError
from shared.jobs.states import State
from shared.jobs.submission import JobRequest
from shared.jobs.transitions import Moment
from tests.conftest import FleetResources
from tests.integration.region import REGION, Region, job, running_region
from tests.real import coherence

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

T = TypeVar("T")
RACERS, KEYS, SUBMITTED = 16, 200, 50


@pytest.fixture
async def region(on_dynamodb_local: FleetResources, tmp_path: Path) -> AsyncIterator[Region]:
    async with running_region(on_dynamodb_local, tmp_path, lease_seconds=10.0) as running:
        yield running


async def race(calls: Sequence[Awaitable[T]]) -> list[T | BaseException]:
    """Those of one key all at once, four keys side by side; in an order that nobody chose."""
    room = asyncio.Semaphore(4)
    results: dict[int, T | BaseException] = {}

    async def run(number: int) -> None:
        try:
            results[number] = await calls[number]
        except LostError as lost:
            results[number] = lost

    async def race_for_one(numbers: list[int]) -> None:
        async with room:
            random.shuffle(numbers)
            await asyncio.gather(*(run(number) for number in numbers))

    await asyncio.gather(*(race_for_one(numbers) for numbers in chunks(list(range(len(calls))))))
    return [results[number] for number in range(len(calls))]


def chunks(results: list[T]) -> list[list[T]]:
    """The results of each key."""
    return [results[start : start + RACERS] for start in range(0, len(results), RACERS)]


async def submitted(region: Region, count: int) -> list[str]:
    heads = await asyncio.gather(*(region.submit(manifest=job(f"job-{number}")) for number in range(count)))
    return [head.id for head in heads]


async def claimed(region: Region, racers: int = RACERS) -> dict[str, list[Head]]:
    """Race for every ready job; the winners' heads by job id."""
    entries = await region.core.store.ready(REGION, KEYS)
    now = region.core.clock.now()
    claims = [
        (entry, Claim(owner=f"w{racer}", nonce=region.core.ids.nonce(), claimed_at=now, expires_at=now + timedelta(minutes=1)))
        for entry in entries
        for racer in range(racers)
    ]
    results = await race([region.core.store.claim(entry, claim) for entry, claim in claims])
    found: dict[str, list[Head]] = {entry.job_id: [] for entry in entries}
    for (entry, claim), result in zip(claims, results, strict=True):
        if isinstance(result, Head):
            assert result.claim == claim
            found[entry.job_id].append(result)
    return found


async def test_of_sixteen_that_claim_a_job_one_wins_two_hundred_times(region: Region) -> None:
    ids = await submitted(region, KEYS)

    winners = await claimed(region)

    assert set(winners) == set(ids)
    assert Counter(len(heads) for heads in winners.values()) == {1: KEYS}
    standing = await region.core.store.heads(ids)
    assert all(standing[job_id] == heads[0] for job_id, heads in winners.items())
    await coherence.check(region.core, REGION, ids)


async def test_of_sixteen_that_commit_an_object_one_wins_two_hundred_times(region: Region) -> None:
    ids = await submitted(region, KEYS)
    heads = [won[0] for won in (await claimed(region, racers=1)).values()]

    def commit(head: Head, racer: int) -> transitions.Change:
        moment = Moment(now=region.core.clock.now(), stamp=region.core.ids.nonce())
        return transitions.committed(head, ClusterObject(name=head.name, uid=f"{head.id}/{racer}"), moment)

    results = await race([region.core.store.write(commit(head, racer)) for head in heads for racer in range(RACERS)])

    for head, outcomes in zip(heads, chunks(results), strict=True):
        won = [outcome for outcome in outcomes if isinstance(outcome, Head)]
        assert len(won) == 1
        assert won[0] == await region.core.store.head(head.id)
        assert all(lost.current == won[0] for lost in outcomes if isinstance(lost, LostError))
    await coherence.check(region.core, REGION, ids)


async def test_of_sixteen_submissions_with_one_key_one_makes_the_job(region: Region) -> None:
    requests = [
        JobRequest(manifest=job(), region=REGION, namespace="gco-jobs", idempotency_key=f"key-{key}")
        for key in range(SUBMITTED)
        for _ in range(RACERS)
    ]

    results = await race([region.submission.submit(request) for request in requests])

    ids = set()
    for outcomes in chunks(results):
        assert len({outcome.head.id for outcome in outcomes}) == 1
        assert sum(outcome.created for outcome in outcomes) == 1
        ids.add(outcomes[0].head.id)
    assert len(ids) == SUBMITTED
    await coherence.check(region.core, REGION, sorted(ids))


async def test_a_stale_holder_cannot_commit_what_was_claimed_again(region: Region) -> None:
    (job_id,) = await submitted(region, 1)
    stale = (await claimed(region))[job_id][0]
    moment = Moment(now=region.core.clock.now(), stamp=region.core.ids.nonce())
    await region.core.store.write(transitions.claim_lapsed(stale, moment))
    again = (await claimed(region))[job_id][0]

    late = Moment(now=region.core.clock.now(), stamp=region.core.ids.nonce())
    with pytest.raises(LostError) as lost:
        await region.core.store.write(transitions.committed(stale, ClusterObject(name="n", uid="u"), late))

    assert lost.value.current == again


async def test_jobs_go_their_whole_way_with_their_table_there(region: Region) -> None:
    for name in ("d1", "d2"):
        await region.dispatcher(name)
    await region.observer()
    await region.sweeper()
    plain = await submitted(region, 20)
    retried = await region.submit(manifest=job(exit_code="1,1,0"), retry=RetryPolicy(max_attempts=3, backoff_seconds=0))
    stopped = await region.submit(manifest=job(hang="true"))
    await region.until(stopped.id, State.RUNNING)

    await region.cancel(stopped.id)
    terminal = [state for state in State if state.terminal]
    done = [await region.until(job_id, *terminal, seconds=90) for job_id in [*plain, retried.id, stopped.id]]

    assert [head.state for head in done] == [State.SUCCEEDED] * 21 + [State.CANCELLED]
    assert all(len(region.starts(job_id)) == 1 for job_id in plain)
    assert len(region.starts(retried.id)) == 3
    await coherence.check(region.core, REGION, [head.id for head in done])
