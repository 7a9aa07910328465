"""What the API tells of a job's cost, at each step of its way."""

from __future__ import annotations

from decimal import Decimal

from shared.jobs import transitions
from shared.jobs.model import RetryPolicy, Spent
from tests.integration.api.test_queue_jobs import run, submit

FLEET = "/fleet/v1"
COST = Spent(known_usd=Decimal("1.250000001"))


def moment(core, stamp):
    return transitions.Moment(now=core.clock.now(), stamp=stamp * 16)


async def cost(client, job_id):
    return (await client.get(f"{FLEET}/jobs/{job_id}")).json()["cost"]


async def test_a_job_costs_nothing_before_it_runs_and_all_that_is_known_of_it_at_its_end(shared_client, shared_core):
    job_id = (await submit(shared_client))["job_id"]
    queued = await cost(shared_client, job_id)
    head = await run(shared_core, job_id)
    running = await cost(shared_client, job_id)
    await shared_core.jobs.write(transitions.succeeded(head, None, moment(shared_core, "4")).charging(COST))

    assert queued == {"usd": "0", "known_usd": "0", "missing": None}
    assert running == {"usd": None, "known_usd": "0", "missing": "execution 1 has not ended"}
    assert await cost(shared_client, job_id) == {"usd": "1.250000001", "known_usd": "1.250000001", "missing": None}
    [execution] = (await shared_client.get(f"{FLEET}/jobs/{job_id}/executions")).json()["executions"]
    assert execution["cost"] == {"known_usd": "1.250000001", "missing": None}
    events = (await shared_client.get(f"{FLEET}/jobs/{job_id}/events")).json()["events"]
    assert [event["cost"] for event in events] == [None, None, None, None, {"known_usd": "1.250000001", "missing": None}]


async def test_an_attempt_that_nobody_knows_the_cost_of_is_missing_for_ever(shared_client, shared_core):
    job_id = (await submit(shared_client, retry={"max_attempts": 3}))["job_id"]
    head = await run(shared_core, job_id)
    assert head.retry == RetryPolicy(max_attempts=3)
    head = await shared_core.jobs.write(transitions.attempt_failed(head, "Failed", None, moment(shared_core, "4")))
    missing = "what execution 1 used was not known when it ended"
    assert await cost(shared_client, job_id) == {"usd": None, "known_usd": "0", "missing": missing}

    await shared_core.jobs.write(transitions.ready(head, "the wait is over", moment(shared_core, "5")))
    head = await run(shared_core, job_id)
    await shared_core.jobs.write(transitions.succeeded(head, None, moment(shared_core, "6")).charging(COST))

    assert await cost(shared_client, job_id) == {"usd": None, "known_usd": "1.250000001", "missing": missing}
