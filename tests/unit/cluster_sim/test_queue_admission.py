import pytest

from tests.unit.cluster_sim.harness import JOBS, Bench, conditions

TOLERATE = {"tolerations": [{"operator": "Exists"}]}


@pytest.fixture
def kueue() -> Bench:
    return Bench(nodes="2xg5.12xlarge", queues={"team": {"nvidia.com/gpu": "4"}})


def queued(bench: Bench, name: str, gpus: int, queue: str = "team", **options):
    container = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
    options = {"suspend": True, "steer": {"duration": "5"}, **options}
    return bench.start(name, labels={"kueue.x-k8s.io/queue-name": queue}, pod=TOLERATE, container=container, **options)


def suspended(bench: Bench, *names: str) -> list[bool]:
    return [bench.job(name)["spec"]["suspend"] for name in names]


def test_a_job_is_admitted_while_there_is_quota(kueue):
    for name in ("one", "two", "three"):
        queued(kueue, name, 2)
    assert suspended(kueue, "one", "two", "three") == [False, False, True]

    kueue.run(6)

    assert suspended(kueue, "three") == [False]
    kueue.run(6)
    assert "Complete" in conditions(kueue.job("three"))


def test_a_small_job_does_not_wait_for_a_large_one(kueue):
    for name, gpus in (("runs", 3), ("large", 4), ("small", 1)):
        queued(kueue, name, gpus)

    assert suspended(kueue, "large", "small") == [True, False]


def test_all_pods_of_a_job_are_counted(kueue):
    queued(kueue, "wide", 2, parallelism=3, completions=3)
    queued(kueue, "narrow", 2, parallelism=2, completions=2)

    assert suspended(kueue, "wide", "narrow") == [True, False]


def test_a_job_that_would_run_at_once_is_held_first(kueue):
    queued(kueue, "runs", 4)
    queued(kueue, "eager", 1, suspend=False)

    assert suspended(kueue, "eager") == [True]
    assert [start.job_name for start in kueue.cluster.started] == ["runs"]


def test_a_label_that_comes_later_is_enough(kueue):
    kueue.start("train", suspend=True)

    kueue.patch(f"{JOBS}/train", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}})
    kueue.run(1)

    assert suspended(kueue, "train") == [False]


def test_a_queue_that_is_not_there_admits_nothing(kueue):
    queued(kueue, "lost", 1, queue="nowhere")
    kueue.run(60)

    assert suspended(kueue, "lost") == [True]


def test_jobs_without_a_queue_are_left_alone(kueue):
    kueue.start("plain", pod=TOLERATE)

    assert [start.job_name for start in kueue.cluster.started] == ["plain"]


def test_a_preempted_job_waits_again_and_runs_again(kueue):
    queued(kueue, "train", 4)
    queued(kueue, "other", 4)

    kueue.cluster.preempt_job("default", "train")
    kueue.run(1)
    assert suspended(kueue, "train", "other") == [True, False]
    assert conditions(kueue.job("train")) == {"Suspended": "JobSuspended"}
    kueue.run(20)

    assert [start.job_name for start in kueue.cluster.started] == ["train", "other", "train"]
    assert "Complete" in conditions(kueue.job("train"))
    assert "failed" not in kueue.job("train")["status"]


def test_a_deleted_job_gives_its_quota_back(kueue):
    queued(kueue, "train", 4)
    queued(kueue, "other", 4)

    kueue.delete(f"{JOBS}/train", propagationPolicy="Background")
    kueue.run(1)

    assert suspended(kueue, "other") == [False]


def test_what_cannot_be_preempted(bench, kueue):
    bench.start("train")

    with pytest.raises(RuntimeError):
        bench.cluster.preempt_job("default", "train")
    with pytest.raises(KeyError):
        kueue.cluster.preempt_job("default", "none")
