from itertools import pairwise

import pytest

from tests.unit.cluster_sim.harness import JOBS, PODS, Bench, conditions, events, job


def condition_order(bench: Bench, name: str) -> list[str]:
    return [condition["type"] for condition in bench.job(name)["status"]["conditions"]]


def test_a_job_runs_one_pod_to_its_end(bench):
    running = bench.start("train")
    assert running["status"] | {"startTime": ""} == {
        "startTime": "",
        "active": 1,
        "ready": 1,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }

    bench.run(1)

    done = bench.job("train")
    assert condition_order(bench, "train") == ["SuccessCriteriaMet", "Complete"]
    assert done["status"]["succeeded"] == 1
    assert "active" not in done["status"]
    assert done["status"]["completionTime"]


def test_a_pod_carries_its_jobs_labels_and_reference(bench):
    created = bench.start("train")

    (pod,) = bench.pods_of("train")

    uid = created["metadata"]["uid"]
    assert pod["metadata"]["name"].startswith("train-")
    assert pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] == uid
    assert pod["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True, "blockOwnerDeletion": True}
    ]
    assert bench.get(PODS, labelSelector=f"batch.kubernetes.io/controller-uid={uid}").names == [pod["metadata"]["name"]]


def test_nothing_runs_before_release(bench):
    suspended = bench.start("train", seconds=60, suspend=True)

    assert conditions(suspended) == {"Suspended": "JobSuspended"}
    assert "startTime" not in suspended["status"]
    assert bench.pods_of("train") == []
    assert bench.cluster.started == []


def test_a_released_job_runs_and_says_so(bench):
    bench.start("train", seconds=60, suspend=True, annotations={"gpufleet.io/execution": "1"})

    bench.patch(f"{JOBS}/train", {"spec": {"suspend": False}})
    bench.run(2)

    done = bench.job("train")
    assert conditions(done) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    suspended = done["status"]["conditions"][0]
    assert (suspended["type"], suspended["status"], suspended["reason"]) == ("Suspended", "False", "JobResumed")
    (start,) = bench.cluster.started
    assert (start.job_name, start.job_uid) == ("train", done["metadata"]["uid"])
    assert start.annotations == {"gpufleet.io/execution": "1"}
    assert start.time == pytest.approx(bench.now - 2, abs=0.2)


def test_suspending_a_running_job_deletes_its_pods_without_calling_them_failed(bench):
    first = bench.start("train", parallelism=2, completions=2, steer={"duration": "5"})
    bench.run(1)

    bench.patch(f"{JOBS}/train", {"spec": {"suspend": True}})
    bench.run(1)

    suspended = bench.job("train")
    assert bench.pods_of("train") == []
    assert "failed" not in suspended["status"]
    assert conditions(suspended) == {"Suspended": "JobSuspended"}

    bench.patch(f"{JOBS}/train", {"spec": {"suspend": False}})
    bench.run(10)
    assert "Complete" in conditions(bench.job("train"))
    assert bench.job("train")["status"]["startTime"] > first["status"]["startTime"]


def test_listeners_see_the_job_and_the_pod_that_started(bench):
    seen: list[tuple[str, str, str]] = []
    bench.cluster.on_pod_started.append(lambda owner, pod: seen.append((owner["kind"], owner["metadata"]["name"], pod["kind"])))

    bench.start("train")

    assert seen == [("Job", "train", "Pod")]


def test_parallel_pods_are_kept_at_the_wanted_number(bench):
    bench.start("train", parallelism=2, completions=3)
    assert bench.job("train")["status"]["active"] == 2

    bench.run(3)

    assert bench.job("train")["status"]["succeeded"] == 3
    assert len(bench.cluster.started) == 3


def test_a_job_without_completions_ends_with_its_first_success_and_its_last_pod(bench):
    bench.post(JOBS, job("train", parallelism=3))

    bench.run(3)

    assert bench.job("train")["status"]["succeeded"] == 3
    assert "Complete" in conditions(bench.job("train"))


def test_parallelism_can_be_lowered(bench):
    bench.start("train", parallelism=3, completions=9, steer={"hang": "true"})

    bench.patch(f"{JOBS}/train", {"spec": {"parallelism": 1}})
    bench.run(1)

    status = bench.job("train")["status"]
    assert (status["active"], status.get("failed")) == (1, None)


def test_indexed_pods_have_names_hostnames_and_indexes(bench):
    bench.start("train", completions=3, parallelism=3, completionMode="Indexed")

    pods = sorted(bench.pods_of("train"), key=lambda pod: pod["metadata"]["name"])

    assert [pod["metadata"]["name"].rsplit("-", 1)[0] for pod in pods] == ["train-0", "train-1", "train-2"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["train-0", "train-1", "train-2"]
    assert [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods] == ["0", "1", "2"]
    assert pods[2]["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "2"}]
    bench.run(2)
    assert bench.job("train")["status"]["completedIndexes"] == "0-2"


def test_a_failed_index_is_tried_again(bench):
    bench.post(JOBS, job("train", completions=3, parallelism=1, completionMode="Indexed", steer={"exit-code": "0,1,0"}))

    bench.run(10)

    assert [start.pod_name.rsplit("-", 1)[0] for start in bench.cluster.started] == ["train-0", "train-1", "train-1", "train-2"]
    assert "Complete" in conditions(bench.job("train"))


def test_failures_inside_the_limit_are_no_failure_of_the_job(bench):
    bench.start("train", steer={"exit-code": "1,1,0"})
    watch = bench.watch(JOBS)

    bench.run(10)

    done = bench.job("train")
    assert done["status"]["failed"] == 2
    assert "Complete" in conditions(done)
    assert not any("Failed" in conditions(event["object"]) for event in events(watch))


def test_the_wait_between_tries_doubles():
    bench = Bench(backoff_base_seconds=10)

    bench.post(JOBS, job("train", steer={"exit-code": "1", "duration": "0"}))
    bench.run(1000)

    times = [start.time for start in bench.cluster.started]
    gaps = [round(later - earlier) for earlier, later in pairwise(times)]
    assert gaps == [10, 20, 40, 80, 160, 320]


def test_a_job_fails_beyond_its_limit_and_only_after_its_last_pod(bench):
    bench.start("train", parallelism=2, completions=2, backoffLimit=0, steer={"exit-code": "1,0", "duration": "0.2"})
    watch = bench.watch(JOBS)

    bench.run(5)

    failed = bench.job("train")
    assert conditions(failed) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert "completionTime" not in failed["status"]
    assert all(not event["object"]["status"].get("active") for event in events(watch) if "Failed" in conditions(event["object"]))
    reasons = [event["reason"] for event in bench.get("/api/v1/events", fieldSelector="involvedObject.name=train").items]
    assert reasons[-1] == "BackoffLimitExceeded"


def test_active_pods_of_a_failed_job_are_ended_first(bench):
    bench.start("train", parallelism=2, completions=2, backoffLimit=0, steer={"hang": "true"})
    (first, _) = bench.pods_of("train")
    watch = bench.watch(JOBS, resourceVersion=bench.cluster.resource_version)

    bench.delete(f"{PODS}/{first['metadata']['name']}")
    bench.run(2)

    steps = [list(conditions(event["object"])) for event in events(watch)]
    assert steps[0] == ["FailureTarget"]
    assert steps[-1] == ["FailureTarget", "Failed"]
    assert bench.job("train")["status"]["failed"] == 2
    assert len(bench.cluster.started) == 2


def test_containers_are_restarted_in_place_on_failure(bench):
    bench.start("train", restart="OnFailure", steer={"exit-code": "1,1,0"})
    bench.run(10)

    (pod,) = bench.pods_of("train")

    assert pod["status"]["containerStatuses"][0]["restartCount"] == 2
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    assert "Complete" in conditions(bench.job("train"))
    assert len(bench.cluster.started) == 1


def test_restarts_count_towards_the_limit(bench):
    bench.start("train", restart="OnFailure", backoffLimit=2, steer={"exit-code": "1"})

    bench.run(10)

    assert conditions(bench.job("train"))["Failed"] == "BackoffLimitExceeded"


def test_a_deadline_ends_a_job(bench):
    bench.start("train", activeDeadlineSeconds=3, steer={"hang": "true"})
    bench.run(2)
    assert bench.job("train")["status"]["active"] == 1

    bench.run(2)

    assert conditions(bench.job("train"))["Failed"] == "DeadlineExceeded"
    assert bench.pods_of("train") == []


def test_the_deadline_counts_from_the_release(bench):
    bench.start("train", seconds=100, suspend=True, activeDeadlineSeconds=3)

    bench.patch(f"{JOBS}/train", {"spec": {"suspend": False}})
    bench.run(2)

    assert "Complete" in conditions(bench.job("train"))


def test_a_finished_job_goes_after_its_ttl(bench):
    bench.start("train", ttlSecondsAfterFinished=10)
    bench.run(9)
    assert bench.get(f"{JOBS}/train").status == 200

    bench.run(3)

    assert bench.get(f"{JOBS}/train").status == 404
    assert bench.pods_of("train") == []


def test_the_exit_code_list_goes_on_in_a_new_job_of_the_same_id(bench):
    steer = {"exit-code": "1,0"}
    bench.start("first", annotations={"gpufleet.io/job-id": "42"}, backoffLimit=0, steer=steer)
    bench.run(3)
    bench.start("second", annotations={"gpufleet.io/job-id": "42"}, backoffLimit=0, steer=steer)
    bench.run(3)

    assert "Failed" in conditions(bench.job("first"))
    assert "Complete" in conditions(bench.job("second"))


def test_a_job_of_another_controller_is_left_alone(bench):
    bench.start("train", managedBy="example.com/other")

    assert bench.pods_of("train") == []


def test_the_story_of_a_job_is_told_in_events(bench):
    bench.start("train")
    bench.run(2)

    told = [(event["involvedObject"]["kind"], event["reason"]) for event in bench.get("/api/v1/namespaces/default/events").items]

    assert {kind_reason for kind_reason in told if kind_reason[0] == "Job"} == {
        ("Job", "SuccessfulCreate"),
        ("Job", "Completed"),
    }
    assert {reason for kind, reason in told if kind == "Pod"} == {"Scheduled", "Pulled", "Created", "Started"}


def test_events_are_forgotten_after_an_hour(bench):
    bench.start("train")

    bench.run(3_700)

    assert bench.get("/api/v1/events").items == []
