from tests.unit.cluster_sim.harness import JOBS, PODS, Bench, job


def log_path(bench: Bench, name: str) -> str:
    (pod,) = bench.pods_of(name)
    return f"{PODS}/{pod['metadata']['name']}/log"


def test_lines_come_over_the_duration(bench):
    bench.start("train", seconds=0.2, steer={"logs": "one\ntwo\nthree\nfour", "duration": "4"})
    path = log_path(bench, "train")

    assert bench.get(path).text == "one\n"
    bench.run(2)
    assert bench.get(path).text == "one\ntwo\nthree\n"
    bench.run(9)
    assert bench.get(path).text == "one\ntwo\nthree\nfour\n"
    assert bench.get(path, tailLines=2).text == "three\nfour\n"
    assert bench.get(path, tailLines=0).text == ""
    assert bench.get(path, limitBytes=5).text == "one\nt"


def test_recent_lines_and_their_times(bench):
    bench.start("train", seconds=3.2, steer={"logs": "one\ntwo\nthree\nfour", "duration": "4"})
    path = log_path(bench, "train")

    assert bench.get(path, sinceSeconds=2).text == "three\nfour\n"
    assert bench.get(path, sinceTime="2027-01-15T08:00:02Z").text == "three\nfour\n"
    first = bench.get(path, timestamps="true").text.splitlines()[0]
    assert first.startswith("2027-01-15T08:00:00.")
    assert first.endswith("Z one")


def test_a_pod_without_lines_of_its_own_says_something(bench):
    bench.start("train", seconds=2)

    assert len(bench.get(log_path(bench, "train")).text.splitlines()) == 2


def test_a_followed_log_ends_with_the_containers(bench):
    bench.start("train", seconds=0.2, steer={"logs": "one\ntwo", "duration": "4"})
    stream = bench.stream(log_path(bench, "train"), follow="true")
    assert stream.take() == [b"one\n"]

    bench.run(2.5)
    assert stream.take() == [b"two\n"]
    assert not stream.closed
    bench.run(2)

    assert stream.closed
    assert stream.take() == []


def test_following_a_log_that_is_complete_ends_at_once(bench):
    bench.start("train", seconds=2)

    assert bench.get(log_path(bench, "train"), follow="true").status == 200


def test_a_followed_log_ends_when_the_pod_is_deleted(bench):
    bench.start("train", steer={"hang": "true", "logs": "one"})
    stream = bench.stream(log_path(bench, "train"), follow="true")

    bench.delete(f"{JOBS}/train", propagationPolicy="Background")
    bench.run(1)

    assert stream.closed


def test_the_log_of_the_run_before(bench):
    bench.start("train", restart="OnFailure", steer={"exit-code": "1,0", "duration": "1", "logs": "a\nb"})
    path = log_path(bench, "train")
    assert bench.get(path, previous="true").refusal == (400, "BadRequest")

    bench.run(1.2)

    assert bench.get(path, previous="true").text == "a\nb\n"
    assert bench.get(path).text == "a\n"


def test_a_container_must_be_named_where_there_are_several(bench):
    pod = {"containers": [{"name": "main", "image": "x:1"}, {"name": "side", "image": "x:1"}]}
    bench.start("train", pod=pod)
    path = log_path(bench, "train")

    assert "choose one of: [main side]" in bench.get(path).json["message"]
    assert bench.get(path, container="side").status == 200
    assert bench.get(path, container="none").refusal == (400, "BadRequest")


def test_what_has_not_started_has_no_log():
    bench = Bench(nodes=[])
    bench.start("train")
    assert "does not have a host assigned" in bench.get(log_path(bench, "train")).json["message"]

    bench = Bench()
    bench.start("train", seconds=0.02)
    assert "is waiting to start: ContainerCreating" in bench.get(log_path(bench, "train")).json["message"]
    assert bench.get(f"{PODS}/none/log").refusal == (404, "NotFound")


def test_all_containers_end_and_the_first_has_the_exit_code(bench):
    pod = {
        "containers": [{"name": "main", "image": "x:1"}, {"name": "side", "image": "x:1"}],
        "initContainers": [{"name": "i", "image": "x"}],
    }
    bench.post(JOBS, job("train", backoffLimit=0, pod=pod, steer={"exit-code": "7"}))
    bench.run(3)

    (found,) = bench.pods_of("train")
    codes = {status["name"]: status["state"]["terminated"]["exitCode"] for status in found["status"]["containerStatuses"]}
    assert codes == {"main": 7, "side": 0}
    assert found["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"


def test_init_containers_write_nothing_and_others_may_have_their_own_lines(bench):
    pod = {
        "containers": [{"name": "main", "image": "x:1"}, {"name": "side", "image": "x:1"}],
        "initContainers": [{"name": "prepare", "image": "x:1"}],
    }
    bench.start("train", seconds=2, pod=pod, steer={"logs": "a", "logs.side": "b\nc"})
    path = log_path(bench, "train")

    assert [bench.get(path, container=name).text for name in ("main", "side", "prepare")] == ["a\n", "b\nc\n", ""]


def test_of_a_rotated_log_only_the_newest_file_is_there_and_streams_end(bench):
    bench.start("train", seconds=0.2, steer={"logs": "one\ntwo\nthree\nfour", "duration": "4", "rotate-lines": "2"})
    path = log_path(bench, "train")
    stream = bench.stream(path, follow="true")

    bench.run(2)

    assert stream.take() == [b"one\n", b"two\n"]
    assert stream.closed
    assert bench.get(path).text == "three\n"
    second = bench.stream(path, follow="true")
    bench.run(1)
    assert second.take() == [b"three\n", b"four\n"]


def test_while_the_next_run_is_waited_for_the_one_that_ended_is_both_the_last_and_the_one_before(bench):
    bench.start("train", restart="OnFailure", steer={"exit-code": "1,0", "duration": "1", "logs": "a\nb"})
    path = log_path(bench, "train")

    bench.run(0.85)

    assert bench.get(path).text == bench.get(path, previous="true").text == "a\nb\n"


def test_a_followed_log_ends_at_its_limit(bench):
    bench.start("train", seconds=0.2, steer={"logs": "one\ntwo\nthree", "duration": "3"})
    stream = bench.stream(log_path(bench, "train"), follow="true", limitBytes=6)

    bench.run(1.1)

    assert stream.take() == [b"one\n", b"tw"]
    assert stream.closed


def test_options_that_can_not_be_are_refused(bench):
    bench.start("train", seconds=2)
    path = log_path(bench, "train")

    assert bench.get(path, sinceSeconds=0).refusal == (422, "Invalid")
    assert bench.get(path, sinceSeconds=1, sinceTime="2027-01-15T08:00:02Z").refusal == (422, "Invalid")
    assert bench.get(path, limitBytes=0).refusal == (422, "Invalid")


def test_a_time_counts_in_whole_seconds(bench):
    bench.start("train", seconds=3.2, steer={"logs": "one\ntwo\nthree\nfour", "duration": "4"})

    assert bench.get(log_path(bench, "train"), sinceTime="2027-01-15T08:00:02.9Z").text == "three\nfour\n"
