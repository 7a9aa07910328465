import pytest

from tests.unit.cluster_sim.harness import CONFIG_MAPS, JOBS, PODS, Bench, config_map, events, job


def owned_by(bench: Bench, *names: str, **more) -> list[dict]:
    return [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": bench.job(name)["metadata"]["uid"], **more} for name in names]


def test_a_deleted_object_is_gone_and_the_answer_says_which(bench):
    created = bench.post(CONFIG_MAPS, config_map("x")).json

    answer = bench.delete(f"{CONFIG_MAPS}/x").json

    assert answer["status"] == "Success"
    assert answer["details"] == {"name": "x", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    assert bench.delete(f"{CONFIG_MAPS}/x").refusal == (404, "NotFound")


@pytest.mark.parametrize("precondition", [{"uid": "other"}, {"resourceVersion": "1"}])
def test_a_precondition_that_does_not_hold_is_a_conflict(bench, precondition):
    bench.post(CONFIG_MAPS, config_map("x"))

    assert bench.delete(f"{CONFIG_MAPS}/x", {"preconditions": precondition}).refusal == (409, "Conflict")
    assert bench.get(f"{CONFIG_MAPS}/x").status == 200


def test_background_deletion_takes_the_job_at_once_and_its_pods_after_it(bench):
    bench.start("train")

    assert bench.delete(f"{JOBS}/train", propagationPolicy="Background").json["status"] == "Success"

    assert bench.get(f"{JOBS}/train").status == 404
    bench.run(0.1)
    (pod,) = bench.pods_of("train")
    assert "deletionTimestamp" in pod["metadata"]
    bench.run(0.2)
    assert bench.pods_of("train") == []


def test_foreground_deletion_keeps_the_job_until_its_pods_are_gone(bench):
    bench.start("train")

    left = bench.delete(f"{JOBS}/train", {"propagationPolicy": "Foreground"}).json

    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in left["metadata"]
    bench.run(0.1)
    assert bench.get(f"{JOBS}/train").status == 200
    bench.run(0.3)
    assert bench.get(f"{JOBS}/train").status == 404
    assert bench.pods_of("train") == []


def test_a_job_that_is_being_deleted_gets_no_new_pods(bench):
    bench.start("train", parallelism=2, steer={"hang": "true"})
    bench.delete(f"{JOBS}/train", propagationPolicy="Foreground")

    bench.run(5)

    assert bench.pods_of("train") == []
    assert len(bench.cluster.started) == 2


def test_foreground_deletion_without_dependants_is_immediate(bench):
    bench.post(JOBS, job("train", suspend=True))

    assert bench.delete(f"{JOBS}/train", propagationPolicy="Foreground").json["kind"] == "Status"


def test_jobs_leave_their_pods_behind_where_no_policy_is_given(bench):
    bench.start("train", steer={"hang": "true"})

    bench.delete(f"{JOBS}/train")
    bench.run(5)

    (pod,) = bench.pods_of("train")
    assert pod["status"]["phase"] == "Running"
    assert "ownerReferences" not in pod["metadata"]


def test_what_a_job_owns_goes_with_it(bench):
    bench.post(JOBS, job("train", suspend=True))
    bench.post(CONFIG_MAPS, config_map("x", metadata={"ownerReferences": owned_by(bench, "train")}))

    bench.delete(f"{JOBS}/train", propagationPolicy="Background")
    bench.run(0.1)

    assert bench.get(f"{CONFIG_MAPS}/x").status == 404


def test_what_two_own_stays_with_the_other(bench):
    for name in ("one", "two"):
        bench.post(JOBS, job(name, suspend=True))
    bench.post(CONFIG_MAPS, config_map("x", metadata={"ownerReferences": owned_by(bench, "one", "two")}))

    bench.delete(f"{JOBS}/one", propagationPolicy="Background")
    bench.run(0.1)

    assert bench.get(f"{CONFIG_MAPS}/x").json["metadata"]["ownerReferences"] == owned_by(bench, "two")


def test_an_owner_that_waits_lets_go_of_what_another_one_keeps(bench):
    for name in ("one", "two"):
        bench.post(JOBS, job(name, suspend=True))
    bench.post(CONFIG_MAPS, config_map("x", metadata={"ownerReferences": owned_by(bench, "one", "two", blockOwnerDeletion=True)}))

    bench.delete(f"{JOBS}/one", propagationPolicy="Foreground")
    bench.run(0.1)

    assert bench.get(f"{JOBS}/one").status == 404
    assert bench.get(f"{CONFIG_MAPS}/x").json["metadata"]["ownerReferences"] == owned_by(bench, "two", blockOwnerDeletion=True)

    bench.delete(f"{JOBS}/two", propagationPolicy="Foreground")
    bench.run(0.1)

    assert bench.get(f"{JOBS}/two").status == 404
    assert bench.get(f"{CONFIG_MAPS}/x").status == 404


@pytest.mark.parametrize("policies", [("Foreground", "Foreground"), ("Foreground", "Background"), ("Background", "Foreground")])
def test_what_two_own_goes_when_both_go_at_once(bench, policies):
    for name in ("one", "two"):
        bench.post(JOBS, job(name, suspend=True))
    bench.post(CONFIG_MAPS, config_map("x", metadata={"ownerReferences": owned_by(bench, "one", "two", blockOwnerDeletion=True)}))

    for name, policy in zip(("one", "two"), policies, strict=True):
        bench.delete(f"{JOBS}/{name}", propagationPolicy=policy)
    bench.run(0.1)

    assert bench.get(f"{CONFIG_MAPS}/x").status == 404
    assert bench.get(JOBS).items == []


def test_what_a_finalizer_holds_keeps_an_owner_waiting_though_another_one_is_gone(bench):
    for name in ("one", "two"):
        bench.post(JOBS, job(name, suspend=True))
    held = {"ownerReferences": owned_by(bench, "one", "two", blockOwnerDeletion=True), "finalizers": ["tests/hold"]}
    bench.post(CONFIG_MAPS, config_map("x", metadata=held))

    bench.delete(f"{JOBS}/one", propagationPolicy="Background")
    bench.delete(f"{JOBS}/two", propagationPolicy="Foreground")
    bench.run(0.1)
    assert bench.get(JOBS).names == ["two"]
    assert "deletionTimestamp" in bench.get(f"{CONFIG_MAPS}/x").json["metadata"]

    bench.patch(f"{CONFIG_MAPS}/x", {"metadata": {"finalizers": None}})
    bench.run(0.1)
    assert bench.get(JOBS).items == []


def test_a_reference_to_an_owner_that_never_was_is_dropped_or_collects(bench):
    bench.post(JOBS, job("train", suspend=True))
    absent = {"apiVersion": "batch/v1", "kind": "Job", "name": "ghost", "uid": "0000"}
    bench.post(CONFIG_MAPS, config_map("both", metadata={"ownerReferences": [absent, *owned_by(bench, "train")]}))
    bench.post(CONFIG_MAPS, config_map("orphan", metadata={"ownerReferences": [absent]}))

    bench.run(0.1)

    assert bench.get(f"{CONFIG_MAPS}/both").json["metadata"]["ownerReferences"] == owned_by(bench, "train")
    assert bench.get(f"{CONFIG_MAPS}/orphan").status == 404


def test_a_finalizer_holds_an_object_until_it_is_taken_off(bench):
    bench.post(CONFIG_MAPS, config_map("x", metadata={"finalizers": ["tests/hold"]}))

    assert "deletionTimestamp" in bench.delete(f"{CONFIG_MAPS}/x").json["metadata"]
    bench.run(10)
    assert bench.get(f"{CONFIG_MAPS}/x").status == 200

    bench.patch(f"{CONFIG_MAPS}/x", {"metadata": {"finalizers": None}})
    assert bench.get(f"{CONFIG_MAPS}/x").status == 404


def test_a_running_pod_takes_its_time_to_go_and_fails_on_the_way(bench):
    bench.start("train", steer={"hang": "true"}, backoffLimit=0)
    (pod,) = bench.pods_of("train")
    path = f"{PODS}/{pod['metadata']['name']}"
    watch = bench.watch(PODS, resourceVersion=pod["metadata"]["resourceVersion"])

    assert bench.delete(path).json["metadata"]["deletionGracePeriodSeconds"] == 30
    assert bench.get(path).status == 200
    bench.run(1)

    assert bench.get(path).status == 404
    seen = [(event["type"], event["object"]["status"]["phase"]) for event in events(watch)]
    assert seen == [("MODIFIED", "Running"), ("MODIFIED", "Failed"), ("DELETED", "Failed")]


def test_a_pod_can_be_taken_away_at_once(bench):
    bench.start("train", steer={"hang": "true"})
    (pod,) = bench.pods_of("train")

    bench.delete(f"{PODS}/{pod['metadata']['name']}", gracePeriodSeconds=0)

    assert bench.pods_of("train") == []


def test_a_pod_without_a_node_goes_at_once():
    bench = Bench(nodes=[])
    bench.start("train")
    (pod,) = bench.pods_of("train")

    bench.delete(f"{PODS}/{pod['metadata']['name']}")

    assert bench.get(f"{PODS}/{pod['metadata']['name']}").status == 404


def test_a_collection_is_deleted_by_its_labels(bench):
    for name in ("a", "b", "c"):
        bench.post(CONFIG_MAPS, config_map(name, metadata={"labels": {"drop": str(name != "b").lower()}}))

    listed = bench.delete(CONFIG_MAPS, labelSelector="drop=true")

    assert listed.names == ["a", "c"]
    assert bench.get(CONFIG_MAPS).names == ["b"]


def test_a_dry_deletion_deletes_nothing(bench):
    bench.post(CONFIG_MAPS, config_map("x"))

    assert bench.delete(f"{CONFIG_MAPS}/x", dryRun="All").status == 200
    assert bench.get(f"{CONFIG_MAPS}/x").status == 200


def test_an_unknown_policy_is_a_bad_request(bench):
    bench.post(CONFIG_MAPS, config_map("x"))

    assert bench.delete(f"{CONFIG_MAPS}/x", {"propagationPolicy": "Gently"}).refusal == (400, "BadRequest")


def test_a_namespace_goes_with_what_is_in_it(bench):
    bench.post("/api/v1/namespaces", {"metadata": {"name": "lab"}})
    bench.post("/apis/batch/v1/namespaces/lab/jobs", job("train", steer={"hang": "true"}))
    bench.run(0.3)

    assert bench.delete("/api/v1/namespaces/lab").json["status"]["phase"] == "Terminating"
    assert bench.post("/apis/batch/v1/namespaces/lab/jobs", job("late")).refusal == (403, "Forbidden")
    bench.run(1)

    assert bench.get("/api/v1/namespaces/lab").status == 404
    assert bench.get("/api/v1/pods").items == []


def test_a_job_that_is_orphaned_goes_at_once_and_its_pods_run_on_without_an_owner(bench):
    bench.start("train", steer={"hang": "true"})
    (before,) = bench.pods_of("train")

    assert bench.delete(f"{JOBS}/train", {"propagationPolicy": "Orphan"}).json["status"] == "Success"
    bench.run(10)

    (pod,) = bench.pods_of("train")
    assert bench.get(f"{JOBS}/train").status == 404
    assert (pod["metadata"]["uid"], pod["status"]["phase"]) == (before["metadata"]["uid"], "Running")
    assert not {"ownerReferences", "deletionTimestamp"} & pod["metadata"].keys()


@pytest.mark.parametrize(("termination", "seconds"), [("5", 5), ("600", 30)], ids=["less-than-its-grace", "more-than-its-grace"])
def test_a_pod_may_take_long_to_go_but_no_longer_than_its_grace_period(bench, termination, seconds):
    bench.start("train", steer={"hang": "true", "termination": termination})
    (pod,) = bench.pods_of("train")
    path = f"{PODS}/{pod['metadata']['name']}"

    bench.delete(path)
    bench.run(seconds - 0.5)
    assert bench.get(path).json["status"]["phase"] == "Running"
    bench.run(1)
    assert bench.get(path).status == 404
