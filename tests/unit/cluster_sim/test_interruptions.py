import pytest

from tests.unit.cluster_sim.harness import PODS, Bench, conditions, events


def disruptions(stream) -> set[str]:
    found = (conditions(event["object"]).get("DisruptionTarget") for event in events(stream))
    return {reason for reason in found if reason}


def test_an_interrupted_pod_says_why_before_it_goes(bench):
    watch = bench.watch(PODS)
    bench.start("train", steer={"interrupt-after": "0.1", "interrupt-reason": "DeletionByTaintManager", "duration": "0.4"})

    bench.run(3)

    assert disruptions(watch) == {"DeletionByTaintManager"}
    assert len(bench.cluster.started) == 2
    assert "Complete" in conditions(bench.job("train"))


def test_as_many_pods_are_interrupted_as_was_asked_over_all_jobs_of_an_id(bench):
    options = {
        "annotations": {"gpufleet.io/job-id": "7"},
        "backoffLimit": 0,
        "steer": {"interrupt-after": "0.1", "interrupt-times": "2"},
    }
    for name in ("one", "two", "three"):
        bench.start(name, **options)
        bench.run(3)

    ends = [next(reversed(conditions(bench.job(name)))) for name in ("one", "two", "three")]
    assert ends == ["Failed", "Failed", "Complete"]


def test_a_pod_that_the_kubelet_evicts_stays_and_shows_it(bench):
    bench.start("train", backoffLimit=0, steer={"interrupt-after": "0.1", "interrupt-reason": "TerminationByKubelet"})
    bench.run(2)

    (pod,) = bench.pods_of("train")

    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
    assert conditions(pod)["DisruptionTarget"] == "TerminationByKubelet"


def test_a_pod_is_evicted_over_the_api(bench):
    bench.start("train", steer={"hang": "true"}, backoffLimit=0)
    (pod,) = bench.pods_of("train")
    watch = bench.watch(PODS)

    answer = bench.post(f"{PODS}/{pod['metadata']['name']}/eviction", {"metadata": {"name": pod["metadata"]["name"]}})
    bench.run(2)

    assert answer.status == 201
    assert disruptions(watch) == {"EvictionByEvictionAPI"}
    assert "Failed" in conditions(bench.job("train"))


def test_an_interrupted_node_takes_its_pods_goes_and_comes_back():
    bench = Bench(nodes="1xg5.xlarge:spot")
    bench.start("train", pod={"tolerations": [{"operator": "Exists"}]}, steer={"duration": "2"})
    first = bench.get("/api/v1/nodes/node-0").json
    watch = bench.watch(PODS)

    bench.cluster.interrupt_node("node-0", back_after=3)
    bench.run(0.1)
    assert bench.get("/api/v1/nodes/node-0").json["spec"]["unschedulable"] is True
    bench.run(1)
    assert bench.get("/api/v1/nodes/node-0").status == 404
    (waiting,) = bench.pods_of("train")
    assert waiting["status"]["phase"] == "Pending"
    bench.run(10)

    again = bench.get("/api/v1/nodes/node-0").json
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert disruptions(watch) == {"DeletionByTaintManager"}
    assert "Complete" in conditions(bench.job("train"))


def test_a_node_can_stay_away(bench):
    bench.cluster.interrupt_node("node-0", returns=False)

    bench.run(100)

    assert bench.cluster.node_names == ["node-1"]
    with pytest.raises(KeyError):
        bench.cluster.interrupt_node("node-0")
