"""Regions over HTTP: what is told of them, who may drain one, and what is refused."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import datetime, timedelta

import pytest

from shared.identity.callers import Caller, Right
from shared.store.backlogs import Backlogs
from tests.integration.api.conftest import serving, serving_caller, submission
from tests.integration.regions.conftest import EAST, WEST
from workers.api.core import build

REGIONS = "/fleet/v1/regions"


@pytest.fixture
async def core(fleet_resources):
    settings = fleet_resources.settings.model_copy(update={"regions": (EAST, WEST)})
    return await build(settings, fleet_resources.aws)


@pytest.fixture
async def client(core):
    async with serving(core) as found:
        yield found


async def region(client, name):
    answer = await client.get(REGIONS)
    assert answer.status_code == 200
    return next(one for one in answer.json()["regions"] if one["region"] == name)


async def drain(client, name, **options):
    return await client.post(f"{REGIONS}/{name}/drain", json=options)


async def test_a_fleet_that_was_never_drained_is_open(client):
    answer = (await client.get(REGIONS)).json()

    nothing = {"queued": 0, "claimed": 0, "pending": 0, "running": 0}
    told = {"since": None, "by": None, "reason": None, "move": False, "interrupt": False, "jobs": nothing}
    assert answer == {"regions": [{"region": name, "state": "open"} | told for name in (EAST, WEST)]}


async def test_who_drained_a_region_when_and_why_is_told_and_a_second_drain_changes_nothing(client, core):
    before = core.clock.now()
    first = await drain(client, EAST, reason="new nodes")

    assert first.status_code == 200
    told = first.json()
    assert (told["state"], told["by"], told["reason"]) == ("draining", "local", "new nodes")
    assert (told["move"], told["interrupt"]) == (True, False)
    assert before <= datetime.fromisoformat(told["since"]) <= core.clock.now()
    assert (await drain(client, EAST)).json() == (await drain(client, EAST, reason="new nodes")).json() == told
    assert (await core.regions.status(EAST)).revision == 1
    assert (await region(client, EAST))["since"] == told["since"]
    assert (await region(client, WEST))["state"] == "open"


async def test_other_options_hold_from_then_on_and_leave_the_time_of_the_first(client):
    first = (await drain(client, EAST, reason="new nodes")).json()
    second = (await drain(client, EAST, move=False, interrupt=True)).json()

    assert (second["since"], second["reason"], second["move"], second["interrupt"]) == (first["since"], "new nodes", False, True)


async def test_a_resumption_is_told_and_that_of_an_open_region_changes_nothing(client, core):
    untouched = await client.post(f"{REGIONS}/{EAST}/resume", json={})
    assert untouched.status_code == 200
    assert (untouched.json()["state"], untouched.json()["since"]) == ("open", None)

    await drain(client, EAST, reason="new nodes")
    resumed = (await client.post(f"{REGIONS}/{EAST}/resume", json={"reason": "they are new"})).json()
    again = (await client.post(f"{REGIONS}/{EAST}/resume", json={})).json()

    assert (resumed["state"], resumed["reason"], resumed["move"]) == ("open", "they are new", False)
    assert again == resumed
    assert (await core.regions.status(EAST)).revision == 2


class Later:
    """A clock some time ahead."""

    def __init__(self, clock, **ahead):
        self._clock = clock
        self._ahead = timedelta(**ahead)

    def now(self):
        return self._clock.now() + self._ahead


async def test_a_region_counts_as_drained_when_nothing_is_at_work_there_and_nothing_can_come(client, core):
    assert (await drain(client, EAST)).json()["state"] == "draining"
    # Nothing is queued, of which a claim might still be under way.
    for seconds, state in ((8, "draining"), (11, "drained")):
        async with serving(dataclasses.replace(core, clock=Later(core.clock, seconds=seconds))) as hence:
            assert (await region(hence, EAST))["state"] == state
    later = dataclasses.replace(core, clock=Later(core.clock, minutes=1))
    async with serving(later) as hence:
        await client.post("/api/v1/queue/jobs", json=submission(target_region=EAST))
        waiting = await region(hence, EAST)
        assert (waiting["state"], waiting["jobs"]["queued"]) == ("drained", 1)
        (entry,) = await core.jobs.ready(EAST, 1)
        await claim(core, entry)
        assert (await region(hence, EAST))["state"] == "draining"


@pytest.mark.parametrize(("lease", "seconds", "state"), [(60, 38, "draining"), (60, 41, "drained"), (600, 300, "draining")])
async def test_a_region_with_queued_jobs_may_get_a_late_claim_for_half_a_lease(client, core, lease, seconds, state):
    await drain(client, EAST)
    await client.post("/api/v1/queue/jobs", json=submission(target_region=EAST))
    settings = core.settings.model_copy(update={"lease_seconds": lease})
    async with serving(dataclasses.replace(core, settings=settings, clock=Later(core.clock, seconds=seconds))) as hence:
        assert (await region(hence, EAST))["state"] == state


async def claim(core, entry):
    from shared.jobs.model import Claim

    now = core.clock.now()
    return await core.jobs.claim(entry, Claim(owner="d1", nonce="1" * 16, claimed_at=now, expires_at=now + timedelta(seconds=60)))


async def test_a_job_tells_why_it_waits(client):
    await drain(client, EAST, reason="new nodes")
    job_id = (await client.post("/api/v1/queue/jobs", json=submission(target_region=EAST))).json()["job"]["job_id"]

    told = (await client.get(f"/fleet/v1/jobs/{job_id}")).json()
    assert told["any_region"] is False
    assert told["held"].startswith(f"{EAST} is drained since 20")
    assert told["held"].endswith("UTC: new nodes; the job waits until it is resumed")

    await client.post(f"{REGIONS}/{EAST}/resume", json={})
    assert (await client.get(f"/fleet/v1/jobs/{job_id}")).json()["held"] is None


async def test_what_may_run_anywhere_is_placed_in_open_regions_only(client, core):
    await drain(client, EAST)
    records = [(await client.post("/api/v1/queue/jobs", json=submission(target_region="any"))).json()["job"] for _ in range(5)]

    assert {record["target_region"] for record in records} == {WEST}
    assert (await client.get(f"/fleet/v1/jobs/{records[0]['job_id']}")).json()["any_region"] is True
    assert (await Backlogs(core.table, core.jobs._layout).overview([EAST, WEST])).drained == {EAST}


async def test_health_tells_that_a_region_is_drained(client):
    await drain(client, EAST)
    health = (await client.get("/fleet/v1/health")).json()

    assert {one["region"]: one["drained"] for one in health["regions"]} == {EAST: True, WEST: False}


async def test_many_at_once_are_one_after_the_other(client, core):
    answers = await asyncio.gather(*(drain(client, EAST, reason=f"reason {number % 3}") for number in range(8)))

    assert {answer.status_code for answer in answers} <= {200, 409}
    status = await core.regions.status(EAST)
    assert status.drained
    assert 1 <= status.revision <= 8


@pytest.mark.parametrize("verb", ["drain", "resume"])
async def test_an_unknown_region_is_not_found_and_the_known_ones_are_named(client, verb):
    answer = await client.post(f"{REGIONS}/mars-1/{verb}", json={})

    assert answer.status_code == 404
    assert answer.json()["detail"] == f"Region 'mars-1' not found (the regions of this fleet are {EAST}, {WEST})"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"reason": ""}, "/reason"),
        ({"reason": "x" * 513}, "/reason"),
        ({"reason": 5}, "/reason"),
        ({"move": "yes"}, "/move"),
        ({"interrupt": 1}, "/interrupt"),
        ({"keep": True}, "/keep"),
        ([], ""),
    ],
    ids=["empty reason", "long reason", "number for reason", "text for move", "number for interrupt", "unknown field", "array"],
)
async def test_a_body_that_breaks_a_rule_is_told_with_its_field_and_nothing_is_drained(client, core, body, pointer):
    answer = await client.post(f"{REGIONS}/{EAST}/drain", json=body)

    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["detail"]] == [pointer]
    assert (await core.regions.status(EAST)).revision == 0


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        (Caller(name="reader", rights=frozenset({Right.READ, Right.SUBMIT})), 403),
        (Caller(name="bound", rights=frozenset(Right), namespaces=frozenset({"gco-jobs"})), 403),
        (Caller(name="root", rights=frozenset(Right)), 200),
    ],
    ids=lambda one: one.name if isinstance(one, Caller) else None,
)
async def test_draining_takes_an_administrator_of_all_namespaces(core, caller, status):
    async with serving_caller(core, caller) as client:
        assert (await drain(client, EAST)).status_code == status
        assert (await client.post(f"{REGIONS}/{EAST}/resume", json={})).status_code == status
        told = (await client.get(REGIONS)).json()["regions"][0]

    assert (told["jobs"] is None) == (caller.namespaces is not None)


async def test_a_body_is_for_who_has_something_to_say(client, core):
    assert (await client.post(f"{REGIONS}/{EAST}/drain")).status_code == 200
    assert (await core.regions.status(EAST)).drained
    assert (await client.post(f"{REGIONS}/{EAST}/resume")).json()["state"] == "open"

    untyped = await client.post(f"{REGIONS}/{EAST}/drain", content=b'{"move": false}')

    assert untyped.status_code == 422
    assert untyped.json()["detail"][0]["pointer"] == "/Content-Type"
    assert not (await core.regions.status(EAST)).drained
