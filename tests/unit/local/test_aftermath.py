"""The demo's last chapter: no message that is wrong, and no report that doesn't add up, would pass."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from decimal import Decimal

import httpx
import pytest
from standardwebhooks import Webhook

from workers.local.demo import aftermath
from workers.local.demo.receiver import Receiver
from workers.local.demo.state import Seen

JOBS = [{"job_id": "a", "status": "succeeded"}, {"job_id": "b", "status": "cancelled"}]


def receiver(**events: str) -> Receiver:
    messages = {f"{job}#9": {"event": event, "job_id": job} for job, event in events.items()}
    return Receiver(secret=aftermath.new_secret(), messages=messages | {"a#2": {"event": "job.started", "job_id": "a"}})


def test_every_end_is_told_once_as_what_it_was():
    found = aftermath._told(receiver(a="job.completed", b="job.cancelled"), Seen(jobs=JOBS))

    assert found.right
    assert (found.wanted, found.found) == (2, 2)


@pytest.mark.parametrize("events", [{"a": "job.completed"}, {"a": "job.completed", "b": "job.failed"}])
def test_an_end_that_is_missing_or_wrong_is_no_right_figure(events):
    found = aftermath._told(receiver(**events), Seen(jobs=JOBS))

    assert not found.right
    assert "job b is cancelled" in found.why[0]


def costed(**costs) -> Receiver:
    messages = {f"{job}#9": {"event": "job.completed", "job_id": job, "cost": cost} for job, cost in costs.items()}
    return Receiver(secret=aftermath.new_secret(), messages=messages)


def cost(usd: str | None, missing: str | None = None):
    return {"usd": usd, "known_usd": usd or "0", "missing": missing}


def test_costs_of_messages_are_those_of_the_reports():
    reported = {"a": Decimal("0.25000001")}  # b had no pod

    assert aftermath._told_costs(costed(a=cost("0.25"), b=cost("0")), Seen(jobs=JOBS), reported).right
    for wrong in (costed(a=cost("0.26"), b=cost("0")), costed(a=cost(None, "no price"), b=cost("0")), costed(a=cost("0.25"))):
        found = aftermath._told_costs(wrong, Seen(jobs=JOBS), reported)
        assert (found.right, found.wanted, found.found, len(found.why)) == (False, 2, 1, 1)


@pytest.mark.parametrize(
    ("gaps", "known"),
    [([], 5), ([(0, 1)], 5), ([(0, 1), (4, 5)], 4), ([(0, 5)], 0)],
    ids=["all", "but-the-first-minute", "but-the-last-minute", "nothing"],
)
def test_a_report_knows_what_was_used_up_to_its_last_gap(gaps, known):
    def at(minute):
        return datetime(2026, 5, 17, 9, minute, tzinfo=UTC)

    told = [{"start": at(start).isoformat(), "end": at(end).isoformat()} for start, end in gaps]
    assert aftermath._known_to({"window_end": at(5).isoformat(), "gaps": told}) == at(known)


def report(*rows: str, nodes: str, jobs: str = "1"):
    return {"totals": [{"total_cost": row} for row in rows], "summary": {"node_cost": nodes, "jobs_cost": jobs}}


def test_reports_add_up_to_the_last_digit():
    good = report("0.1", "0.200000001", nodes="0.300000001")

    assert aftermath._add_up({"one": good}).right
    assert not aftermath._add_up({"one": good, "other": report("0.1", "0.2", nodes="0.300000001")}).right
    assert not aftermath._add_up({"one": report("0.3", nodes="0.3", jobs="0")}).right


def test_gpus_of_both_makes_are_wanted():
    assert aftermath._measured([{"vendor": "nvidia"}, {"vendor": "amd"}], 2).right
    assert not aftermath._measured([{"vendor": "nvidia"}, {"vendor": "nvidia"}], 2).right


async def test_a_receiver_takes_what_is_signed_and_nothing_else():
    body = json.dumps({"event": "job.completed", "job_id": "a"})
    async with Receiver(secret=aftermath.new_secret()) as found, httpx.AsyncClient(trust_env=False) as client:
        now = datetime.now(UTC)
        headers = {
            "webhook-id": "a#1",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(found.secret).sign("a#1", now, body),
            "X-GCO-Signature": "sha256=" + hmac.new(found.secret.encode(), body.encode(), hashlib.sha256).hexdigest(),
        }
        right = await client.post(found.url, content=body, headers=headers)
        changed = await client.post(found.url, content=body.replace("a", "b"), headers=headers)
        other = await client.post(found.url, content=body, headers=headers | {"X-GCO-Signature": "sha256=0"})

    assert [right.status_code, changed.status_code, other.status_code] == [204, 401, 401]
    assert list(found.messages) == ["a#1"]
    assert len(found.refused) == 2
