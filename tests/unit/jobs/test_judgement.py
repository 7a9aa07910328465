import pytest

from shared.jobs.judgement import Verdict, judge_gone, judge_present
from shared.jobs.model import Stop, StopIntent
from shared.jobs.states import State
from tests.unit.jobs.builders import NOW, claimed, pending, queued, running, seen

STOP = Stop(intent=StopIntent.CANCEL, reason="", requested_at=NOW)


@pytest.mark.parametrize(
    ("head", "fact", "verdict"),
    [
        (pending(), seen(), Verdict.NOTHING),
        (pending(), seen(released="no"), Verdict.RELEASE),
        (pending(), seen(released="no", deleting=True), Verdict.NOTHING),
        (pending(), seen(ready=1), Verdict.RUNNING),
        (running(), seen(ready=1), Verdict.NOTHING),
        (pending(), seen(complete=True), Verdict.SUCCEEDED),
        (running(), seen(failed_reason="BackoffLimitExceeded"), Verdict.FAILED),
        (running(), seen(disrupted="spot"), Verdict.INTERRUPTED),
        (running(stop=STOP), seen(failed_reason="BackoffLimitExceeded"), Verdict.NOTHING),
        (running(stop=STOP), seen(complete=True), Verdict.SUCCEEDED),
        (claimed(), seen(released="no"), Verdict.NOTHING),
        (queued(), seen(released="no"), Verdict.NOTHING),
        (pending(), seen(uid="other", released="no"), Verdict.STRAY),
        (queued(execution=2), seen(), Verdict.STRAY),
        (running(state=State.CANCELLED, object=None), seen(released="no"), Verdict.STRAY),
        (running(state=State.SUCCEEDED), seen(complete=True), Verdict.NOTHING),
    ],
)
def test_an_object_that_stands(head, fact, verdict):
    assert judge_present(head, fact) is verdict


@pytest.mark.parametrize(
    ("head", "last", "verdict"),
    [
        (running(), seen(), Verdict.DELETED),
        (running(), seen(complete=True), Verdict.SUCCEEDED),
        (running(), seen(failed_reason="x"), Verdict.FAILED),
        (pending(), seen(released="no"), Verdict.NOT_STARTED),
        (running(stop=STOP), seen(), Verdict.STOPPED),
        (claimed(stop=STOP), seen(released="no"), Verdict.STOPPED),
        (claimed(), seen(released="no"), Verdict.NOTHING),
        (running(state=State.SUCCEEDED), seen(complete=True), Verdict.NOTHING),
        (running(), seen(uid="other"), Verdict.NOTHING),
    ],
)
def test_an_object_that_is_gone(head, last, verdict):
    assert judge_gone(head, last) is verdict


def test_a_pod_that_failed_within_the_back_off_limit_means_nothing_for_the_job():
    """cases.md 9: only the Job's own Failed condition is a failure."""
    assert judge_present(running(), seen(ready=0)) is Verdict.NOTHING
