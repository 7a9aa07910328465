"""What the components of a cluster tell of what they do: who tells it, how repeated events are counted, when they are forgotten."""

import pytest

from tests.unit.cluster_sim.harness import JOBS, PODS, Bench, events, job
from workers.local.cluster import event_recorder

EVENTS = "/api/v1/namespaces/default/events"
CONTAINERS = {
    "initContainers": [{"name": "fetch", "image": "busybox"}],
    "containers": [{"name": name, "image": "busybox"} for name in ("a", "b")],
}


def told(bench, reason=None, **fields):
    """The events of a reason, oldest first; `fields` are those of the object that they are about."""
    selector = ",".join(f"involvedObject.{key}={value}" for key, value in fields.items())
    found = bench.get(EVENTS, fieldSelector=selector).items
    found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    return [event for event in found if reason in (None, event["reason"])]


def one(bench, reason, **fields):
    (event,) = told(bench, reason, **fields)
    return event


def test_the_job_controller_tells_of_its_job(bench):
    created = bench.start("train", steer={"duration": "1"})
    bench.run(5)

    made = one(bench, "SuccessfulCreate", kind="Job")
    about = made["involvedObject"]
    assert (about["apiVersion"], about["name"], about["namespace"], about["uid"]) == (
        "batch/v1",
        "train",
        "default",
        created["metadata"]["uid"],
    )
    assert made["message"] == f"Created pod: {bench.pods_of('train')[0]['metadata']['name']}"
    assert (made["type"], made["count"], made["firstTimestamp"]) == ("Normal", 1, made["lastTimestamp"])
    assert made["source"] == {"component": "job-controller"}
    assert made["reportingComponent"] == "job-controller"
    assert [event["reason"] for event in told(bench, kind="Job")] == ["SuccessfulCreate", "Completed"]


def test_the_kubelet_tells_of_containers_and_of_itself(bench):
    bench.start("train", steer={"hang": "true"}, pod=CONTAINERS)
    (pod,) = bench.pods_of("train")

    for reason in ("Pulled", "Created", "Started"):
        found = told(bench, reason, uid=pod["metadata"]["uid"])
        assert [event["involvedObject"]["fieldPath"] for event in found] == [
            "spec.initContainers{fetch}",
            "spec.containers{a}",
            "spec.containers{b}",
        ]
        assert {event["source"]["host"] for event in found} == {pod["spec"]["nodeName"]}
        assert {event["source"]["component"] for event in found} == {"kubelet"}


def test_the_scheduler_writes_in_the_new_way(bench):
    bench.start("train", steer={"hang": "true"})

    event = one(bench, "Scheduled")

    assert event["eventTime"].endswith("Z")
    assert len(event["eventTime"]) == len("2027-01-15T08:00:00.005000Z")
    assert (event["source"], event["firstTimestamp"], event["lastTimestamp"]) == ({}, None, None)
    assert (event["reportingComponent"], event["action"]) == ("default-scheduler", "Binding")
    assert "count" not in event
    assert "series" not in event


def test_what_fits_nowhere_is_told_again_every_five_minutes():
    bench = Bench(nodes="m5.large")
    bench.start("large", container={"resources": {"requests": {"cpu": "64"}}})
    assert "series" not in one(bench, "FailedScheduling")

    bench.run(1000)

    event = one(bench, "FailedScheduling")
    assert event["series"]["count"] == 4
    assert event["series"]["lastObservedTime"] > event["eventTime"]
    bench.run(36_000)
    assert one(bench, "FailedScheduling")["series"]["count"] > 100


def test_what_has_found_its_place_is_told_no_more():
    bench = Bench(nodes="m5.large")
    bench.start("first", steer={"duration": "10"}, container={"resources": {"requests": {"cpu": "2"}}})
    bench.start("second", steer={"duration": "10"}, container={"resources": {"requests": {"cpu": "2"}}})
    bench.run(600)

    assert "series" not in one(bench, "FailedScheduling")
    assert bench.cluster.next_wakeup() > bench.now + 1000


def test_containers_that_fail_again_and_again_are_one_event(bench):
    bench.post(JOBS, job("train", restart="OnFailure", steer={"exit-code": "1", "duration": "0"}, backoffLimit=8))
    bench.run(120)

    event = one(bench, "BackOff")

    assert event["type"] == "Warning"
    assert event["count"] == 8
    assert event["firstTimestamp"] < event["lastTimestamp"]
    assert event["message"].startswith("Back-off restarting failed container main in pod train-")


def test_a_flood_about_one_object_is_cut(bench):
    bench.start("train", steer={"hang": "true"}, parallelism=60, completions=60, container={"resources": {"requests": {"cpu": "10m"}}})

    made = told(bench, "SuccessfulCreate", kind="Job")

    assert len(bench.pods_of("train")) == 60
    assert len(made) == 10
    assert made[-1]["message"].startswith("(combined from similar events): Created pod: train-")
    assert made[-1]["count"] == 25 - 9


def test_pods_that_a_job_takes_away_are_told(bench):
    bench.start("train", steer={"hang": "true"}, parallelism=2, completions=2, activeDeadlineSeconds=1)
    bench.run(5)
    gone = {event["message"] for event in told(bench, "SuccessfulDelete")}

    assert len(gone) == 2
    assert one(bench, "DeadlineExceeded", kind="Job")["type"] == "Warning"
    assert len(told(bench, "Killing", kind="Pod")) == 2


def test_suspending_and_resuming_are_told(bench):
    bench.start("train", steer={"hang": "true"})
    for suspend in (True, False):
        bench.patch(f"{JOBS}/train", {"spec": {"suspend": suspend}})
        bench.run(1)

    reasons = [event["reason"] for event in told(bench, kind="Job")]
    assert sorted(reasons) == ["Resumed", "SuccessfulCreate", "SuccessfulCreate", "SuccessfulDelete", "Suspended"]


@pytest.mark.parametrize(
    ("reason", "component", "event"),
    [
        ("DeletionByTaintManager", "taint-eviction-controller", "TaintManagerEviction"),
        ("EvictionByEvictionAPI", "karpenter", "Evicted"),
        ("PreemptionByScheduler", "default-scheduler", "Preempted"),
        ("TerminationByKubelet", "kubelet", "Evicted"),
    ],
)
def test_interruptions_are_told_by_who_makes_them(bench, reason, component, event):
    bench.start("train", steer={"hang": "true", "interrupt-after": "1", "interrupt-reason": reason}, backoffLimit=5)
    bench.run(2)

    assert one(bench, event, kind="Pod")["reportingComponent"] == component


def test_an_event_that_repeats_lives_on_and_is_forgotten_an_hour_later(bench):
    bench.post(JOBS, job("train", restart="OnFailure", steer={"exit-code": "1", "duration": "600"}, backoffLimit=6))
    bench.run(700)
    bench.start("other", steer={"duration": "0"})
    bench.run(3700)

    assert not {event["reason"] for event in told(bench)} & {"SuccessfulCreate", "Scheduled", "Pulled", "Completed"}
    assert one(bench, "BackOff")["count"] == 6
    assert told(bench, kind="Job", name="other") == []

    bench.run(3700)
    assert told(bench) == []


def test_the_oldest_go_when_there_are_too_many(bench, monkeypatch):
    monkeypatch.setattr(event_recorder, "MOST_EVENTS", 20)
    for number in range(8):
        bench.start(f"job-{number}", steer={"duration": "0"})
    bench.run(5)

    found = bench.get("/api/v1/events").items
    assert len(found) == 20
    assert not any(event["involvedObject"]["name"].startswith("job-0") for event in found)
    bench.run(4000)
    assert bench.get("/api/v1/events").items == []


def test_a_watch_sees_an_event_be_counted_up(bench):
    bench.post(JOBS, job("train", restart="OnFailure", steer={"exit-code": "1", "duration": "0"}, backoffLimit=3))
    watch = bench.watch(EVENTS, fieldSelector="reason=BackOff")
    bench.run(30)

    seen = [(event["type"], event["object"]["count"]) for event in events(watch)]
    assert seen == [("ADDED", 1), ("MODIFIED", 2), ("MODIFIED", 3)]


def test_a_cluster_without_events_is_otherwise_the_same():
    def story(**options):
        bench = Bench(**options)
        bench.start("train", steer={"exit-code": "1,0", "duration": "1"}, backoffLimit=3)
        bench.run(10)
        return bench, [(pod["metadata"]["uid"], pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in bench.get(PODS).items]

    (without, silent), (_, usual) = story(events=False), story()

    assert without.get("/api/v1/events").items == []
    assert silent == usual
