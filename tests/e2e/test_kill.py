"""Dispatchers die all the time, and each job runs once.

`make kill-test` (pytest -m slow on this file) runs the long one: 500 jobs, 4 dispatchers, a SIGKILL every second. The ordinary tests run a
short one.
"""

import sys

import pytest

from tests.e2e import killing


def check(outcome: killing.Outcome, jobs: int) -> None:
    sys.stderr.write(f"\n{outcome}\n")
    assert len(outcome.accepted) == jobs
    assert outcome.states == {"succeeded": jobs}
    assert outcome.twice == []
    assert outcome.lost == set()
    assert outcome.killed.total() > 0


@pytest.mark.timeout(240)
async def test_sixty_jobs_run_once_each_while_dispatchers_are_killed() -> None:
    check(await killing.run(jobs=60, dispatchers_per_region=1, every=1.0, within=180, kills=6), 60)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_five_hundred_jobs_run_once_each_while_one_of_four_dispatchers_is_killed_every_second(request: pytest.FixtureRequest) -> None:
    if "slow" not in request.config.option.markexpr or "not slow" in request.config.option.markexpr:
        pytest.skip("takes minutes; run by `make kill-test`")
    outcome = await killing.run(jobs=500, dispatchers_per_region=2, every=1.0, within=800)
    check(outcome, 500)
    assert len(outcome.killed) == 4
