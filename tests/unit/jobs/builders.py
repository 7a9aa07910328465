"""Heads and facts for tests, with the least that a test has to say."""

from datetime import UTC, datetime, timedelta

from shared.jobs.change import Moment
from shared.jobs.model import Claim, ClusterObject, Head
from shared.jobs.ports import Observed
from shared.jobs.schedule import first_ring
from shared.jobs.states import State

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
JOB_ID = "01936f00-0000-7000-8000-0000000000aa"


def at(seconds: float = 0.0, jitter: float = 0.0) -> Moment:
    """A moment so many seconds after NOW."""
    return Moment(now=NOW + timedelta(seconds=seconds), stamp="ab12cd34ab12cd34", jitter=jitter)


def queued(**updates) -> Head:
    """A job that has just been submitted."""
    fields = {
        "id": JOB_ID,
        "name": "train",
        "namespace": "gco-jobs",
        "region": "us-east-1",
        "state": State.QUEUED,
        "priority": 0,
        "revision": 1,
        "fence": 0,
        "stamp": "00",
        "spec_version": 1,
        "spec_hash": "hash",
        "gpus": 1,
        "submitted_at": NOW,
        "updated_at": NOW,
        "ring_at": first_ring(NOW),
    }
    return Head(**(fields | updates))


def claimed(**updates) -> Head:
    """A job that a worker has claimed for a minute."""
    claim = Claim(owner="w1", nonce="nonce", claimed_at=NOW, expires_at=NOW + timedelta(seconds=60))
    return queued(**({"state": State.CLAIMED, "fence": 1, "claim": claim} | updates))


def pending(**updates) -> Head:
    """A job whose object is committed."""
    placed = ClusterObject(name="train-1", uid="uid-1")
    return claimed(**({"state": State.PENDING, "revision": 3, "object": placed, "committed_at": NOW, "ring_at": None} | updates))


def running(**updates) -> Head:
    """A job of which a pod runs."""
    return pending(**({"state": State.RUNNING, "revision": 4, "started_at": NOW} | updates))


def seen(**updates) -> Observed:
    """The committed object of `pending`, released, with no pod yet."""
    fields = {
        "name": "train-1",
        "namespace": "gco-jobs",
        "uid": "uid-1",
        "resource_version": "1",
        "job_id": JOB_ID,
        "execution": 1,
        "spec_hash": "hash",
        "released": "2026-11-30T12:00:01Z",
        "suspended": False,
        "deleting": False,
    }
    return Observed(**(fields | updates))
