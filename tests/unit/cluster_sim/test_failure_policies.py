from tests.unit.cluster_sim.harness import Bench, conditions

IGNORE_DISRUPTIONS = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


def exit_rule(action: str, operator: str, values: list[int], container: str | None = None) -> dict:
    where = {"containerName": container} if container else {}
    return {"rules": [{"action": action, "onExitCodes": {**where, "operator": operator, "values": values}}]}


def run(bench: Bench, **options) -> dict:
    bench.start("train", **options)
    bench.run(10)
    return bench.job("train")


def test_an_exit_code_can_fail_the_job_at_once(bench):
    failed = run(bench, podFailurePolicy=exit_rule("FailJob", "In", [42], "main"), steer={"exit-code": "42"})

    assert conditions(failed)["Failed"] == "PodFailurePolicy"
    message = failed["status"]["conditions"][-1]["message"]
    assert message.startswith("Container main for pod default/train-")
    assert message.endswith(" failed with exit code 42 matching FailJob rule at index 0")
    assert len(bench.cluster.started) == 1


def test_another_exit_code_counts(bench):
    done = run(bench, podFailurePolicy=exit_rule("FailJob", "In", [42]), steer={"exit-code": "1,0"})

    assert "Complete" in conditions(done)


def test_not_in_matches_every_other_code(bench):
    assert conditions(run(bench, podFailurePolicy=exit_rule("FailJob", "NotIn", [3]), steer={"exit-code": "4"}))["Failed"]


def test_a_rule_for_another_container_does_not_match(bench):
    done = run(bench, podFailurePolicy=exit_rule("FailJob", "In", [1], "sidecar"), steer={"exit-code": "1,0"})

    assert "Complete" in conditions(done)


def test_an_interrupted_pod_can_be_ignored(bench):
    done = run(bench, backoffLimit=0, podFailurePolicy=IGNORE_DISRUPTIONS, steer={"interrupt-after": "0.2"})

    assert "Complete" in conditions(done)
    assert done["status"]["failed"] == 1
    assert len(bench.cluster.started) == 2


def test_without_a_policy_an_interruption_is_a_failure(bench):
    failed = run(bench, backoffLimit=0, steer={"interrupt-after": "0.2"})

    assert conditions(failed)["Failed"] == "BackoffLimitExceeded"
    assert len(bench.cluster.started) == 1


def test_with_a_policy_a_pod_is_replaced_only_when_it_has_failed(bench):
    bench.start("train", podFailurePolicy=IGNORE_DISRUPTIONS, steer={"interrupt-after": "0.2", "hang": "true"})
    bench.run(0.1)

    status = bench.job("train")["status"]

    assert (status.get("active", 0), status["terminating"]) == (0, 1)
