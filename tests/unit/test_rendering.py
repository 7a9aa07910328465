"""An execution's objects: suspended, marked, named for ever the same, with what the user wrote intact."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clusters.placement import SpotRequest
from shared.clusters.rendering import MAX_JOB_NAME, RenderIdentity, object_name, own, render, specification_hash
from shared.policy import Policy, Security
from shared.policy.metadata import is_dns_label
from tests.unit.policy_examples import a_config_map, a_job, a_service, admit, changed, main_of, pod_of

JOB_ID = "0198c0de-0000-7000-8000-0123456789ab"


def identity(**options: Any) -> RenderIdentity:
    return RenderIdentity(
        **{"job_id": JOB_ID, "execution": 2, "name": "train", "namespace": "gco-jobs", "spec_hash": "abc", "labels": {}, **options}
    )


def rendered(job: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return render(job or a_job(), identity=identity(**options)).job


def test_the_job_is_suspended_and_marked_with_its_execution() -> None:
    job = rendered()
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["name"] == "train-0123456789ab-2"
    assert job["metadata"]["namespace"] == "gco-jobs"
    assert job["metadata"]["annotations"] == {
        "gpufleet.io/job-id": JOB_ID,
        "gpufleet.io/execution": "2",
        "gpufleet.io/spec-hash": "abc",
        "gpufleet.io/released": "no",
        "gpufleet.io/name": "train",
    }
    for found in (job, job["spec"]["template"]):
        assert found["metadata"]["labels"]["gpufleet.io/managed"] == "true"
        assert found["metadata"]["labels"]["gpufleet.io/job-id"] == JOB_ID
        assert found["metadata"]["annotations"]["gpufleet.io/execution"] == "2"


def test_the_users_labels_stay_and_those_of_the_submission_reach_the_pods() -> None:
    job = rendered(labels={"owner": "ada", "team": "speech"})
    assert job["metadata"]["labels"]["team"] == "speech"
    assert job["spec"]["template"]["metadata"]["labels"]["owner"] == "ada"
    assert rendered()["metadata"]["labels"]["team"] == "vision"


def test_pods_say_the_name_of_their_job_and_who_submitted_it() -> None:
    job = rendered(submitted_by="key:ada")
    assert job["spec"]["template"]["metadata"]["annotations"]["gpufleet.io/submitted-by"] == "key:ada"
    assert job["spec"]["template"]["metadata"]["annotations"]["gpufleet.io/name"] == "train"
    assert "gpufleet.io/submitted-by" not in rendered()["spec"]["template"]["metadata"]["annotations"]


def test_what_was_admitted_is_not_changed() -> None:
    job, beside = a_job(gpus=1), [a_service(), a_config_map(a="b")]
    before = copy.deepcopy((job, beside))
    own(render(job, beside, identity=identity(spot=SpotRequest(instance_type="g5.xlarge"))).supporting, "n", "u")
    assert (job, beside) == before


def test_rendering_twice_gives_the_same() -> None:
    assert rendered() == rendered()


@given(
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True),
    st.integers(1, 10**6),
)
def test_names_are_labels_that_leave_room_for_an_index(base: str, execution: int) -> None:
    name = object_name(base, JOB_ID, execution)
    assert len(name) <= MAX_JOB_NAME
    assert is_dns_label(f"{name}-99999")
    assert name.endswith(f"-0123456789ab-{execution}")


def test_a_name_cut_at_a_hyphen_has_none_before_its_tail() -> None:
    assert object_name("a" * 41 + "-b", JOB_ID, 1) == "a" * 41 + "-0123456789ab-1"


def test_every_container_learns_its_job_before_the_users_variables() -> None:
    job = changed("/spec/template/spec/initContainers", [{"name": "fetch", "image": "busybox"}])
    main_of(job)["env"] = [{"name": "OUT", "value": "/out/$(GPUFLEET_JOB_NAME)"}]
    pod = pod_of(rendered(job))
    for container in (*pod["initContainers"], *pod["containers"]):
        assert [(entry["name"], entry["value"]) for entry in container["env"][:3]] == [
            ("GPUFLEET_JOB_ID", JOB_ID),
            ("GPUFLEET_JOB_NAME", "train-0123456789ab-2"),
            ("GPUFLEET_EXECUTION", "2"),
        ]
    assert pod["containers"][0]["env"][3:] == [{"name": "OUT", "value": "/out/$(GPUFLEET_JOB_NAME)"}]


def test_an_eviction_is_no_failure_by_default() -> None:
    job = rendered(a_job(backoffLimit=0))
    assert job["spec"]["podFailurePolicy"] == {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    }


def test_a_failure_policy_of_ones_own_stays() -> None:
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}
    assert rendered(a_job(podFailurePolicy=policy))["spec"]["podFailurePolicy"] == policy


def test_no_failure_policy_is_added_where_kubernetes_would_refuse_it() -> None:
    assert "podFailurePolicy" not in rendered(changed("/spec/template/spec/restartPolicy", "OnFailure"))["spec"]
    assert "podFailurePolicy" not in rendered(a_job(podReplacementPolicy="TerminatingOrFailed"))["spec"]


@pytest.mark.parametrize(("asked", "given"), [(None, 86_400), (0, 3_600), (3_599, 3_600), (7_200, 7_200)])
def test_an_ended_job_stays_long_enough_to_be_seen(asked: int | None, given: int) -> None:
    assert rendered(a_job(ttlSecondsAfterFinished=asked))["spec"]["ttlSecondsAfterFinished"] == given


@pytest.mark.parametrize(("asked", "given"), [(None, False), (False, False), (True, True)])
def test_the_token_of_the_service_account_is_mounted_only_when_asked_for(asked: bool | None, given: bool) -> None:
    job = changed("/spec/template/spec/automountServiceAccountToken", asked)
    assert pod_of(rendered(job))["automountServiceAccountToken"] is given


def test_no_autoscaler_ends_a_pod_to_save_a_node_unless_its_user_lets_it() -> None:
    keys = ("cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt")

    def told(job: dict[str, Any]) -> list[str]:
        annotations = rendered(job)["spec"]["template"]["metadata"]["annotations"]
        return [annotations[key] for key in keys]

    assert told(a_job()) == ["false", "true"]
    movable = changed("/spec/template/metadata", {"annotations": {keys[0]: "true", "note": "x"}})
    assert told(movable) == ["true", "true"]
    assert rendered(movable)["spec"]["template"]["metadata"]["annotations"]["note"] == "x"
    assert told(changed("/spec/template/metadata", {"annotations": {keys[1]: "5m"}})) == ["false", "5m"]


def test_what_a_cluster_wrote_is_left_out() -> None:
    job = changed("/metadata/creationTimestamp", None)
    job["status"] = {"active": 1}
    job["metadata"]["generateName"] = "train-"
    found = rendered(job)
    assert "status" not in found
    assert not {"creationTimestamp", "generateName"} & found["metadata"].keys()


def test_a_kueue_queue_waits_in_an_annotation_until_the_release() -> None:
    job = changed("/metadata/labels/kueue.x-k8s.io~1queue-name", "gpus")
    found = rendered(job)
    assert "kueue.x-k8s.io/queue-name" not in found["metadata"]["labels"]
    assert found["metadata"]["annotations"]["gpufleet.io/queue-name"] == "gpus"


def test_a_queue_among_the_labels_of_the_submission_waits_too() -> None:
    found = rendered(labels={"kueue.x-k8s.io/queue-name": "gpus"})
    for place in (found, found["spec"]["template"]):
        assert "kueue.x-k8s.io/queue-name" not in place["metadata"]["labels"]
    assert found["metadata"]["annotations"]["gpufleet.io/queue-name"] == "gpus"


# Spot


def spot_terms(job: dict[str, Any]) -> list[Any]:
    pod = pod_of(rendered(job, spot=SpotRequest(instance_type="g5.xlarge")))
    terms: list[Any] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return terms


def conditions(term: dict[str, Any]) -> dict[str, Any]:
    return {entry["key"]: entry.get("values") for entry in term["matchExpressions"]}


EKS = {"node.kubernetes.io/instance-type": ["g5.xlarge"], "eks.amazonaws.com/capacityType": ["SPOT"]}
KARPENTER = {"node.kubernetes.io/instance-type": ["g5.xlarge"], "karpenter.sh/capacity-type": ["spot"]}


def test_spot_means_the_label_of_either_kind_of_node_and_the_type() -> None:
    assert [conditions(term) for term in spot_terms(a_job())] == [EKS, KARPENTER]


def with_terms(*terms: dict[str, Any]) -> dict[str, Any]:
    place = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
    return changed(place, list(terms))


def test_spot_narrows_each_of_the_users_own_terms() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    found = spot_terms(with_terms(zone, name, {}))
    assert [conditions(term) for term in found] == [{"zone": ["a"], **EKS}, {"zone": ["a"], **KARPENTER}, EKS, KARPENTER]
    assert [term.get("matchFields") for term in found] == [None, None, name["matchFields"], name["matchFields"]]


def test_terms_that_match_nothing_go_on_matching_nothing() -> None:
    assert spot_terms(with_terms({})) == [{}]


def test_the_rest_of_the_users_affinity_stays() -> None:
    job = changed("/spec/template/spec/affinity/podAntiAffinity", {"x": 1})
    preferred = [{"weight": 1, "preference": {}}]
    job = changed("/spec/template/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution", preferred, job=job)
    affinity = pod_of(rendered(job, spot=SpotRequest(instance_type="g5.xlarge")))["affinity"]
    assert affinity["podAntiAffinity"] == {"x": 1}
    assert affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred


def test_a_job_that_is_not_for_spot_keeps_its_affinity_untouched() -> None:
    assert "affinity" not in pod_of(rendered())


# Supporting objects


def test_supporting_objects_are_marked_and_owned_by_the_job() -> None:
    found = render(a_job(), [a_service(selector={"app": "x"}), a_config_map(a="b")], identity=identity()).supporting
    owned = own(found, "train-0123456789ab-2", "uid-1")
    for item in owned:
        assert item["metadata"]["namespace"] == "gco-jobs"
        assert item["metadata"]["labels"]["gpufleet.io/managed"] == "true"
        assert item["metadata"]["annotations"]["gpufleet.io/job-id"] == JOB_ID
        assert item["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train-0123456789ab-2",
                "uid": "uid-1",
                "controller": False,
                "blockOwnerDeletion": True,
            }
        ]
    assert owned[0]["spec"]["selector"] == {"app": "x"}
    assert [item["metadata"]["name"] for item in owned] == ["peers", "settings"]


def test_a_service_without_a_selector_leads_to_this_executions_pods() -> None:
    [service] = render(a_job(), [a_service()], identity=identity()).supporting
    assert service["spec"]["selector"] == {"gpufleet.io/job-id": JOB_ID, "gpufleet.io/execution": "2"}


# Hashes


def test_a_specification_has_one_hash_whatever_the_order_of_its_keys() -> None:
    job = a_job()
    turned = dict(reversed(job.items()))
    assert specification_hash(job, [], {"a": 1}) == specification_hash(turned, [], {"a": 1})
    assert len(specification_hash(job, [], {})) == 64


def test_any_difference_changes_the_hash() -> None:
    hashes = {
        specification_hash(a_job(), [], {}),
        specification_hash(a_job(backoffLimit=3), [], {}),
        specification_hash(a_job(), [a_service()], {}),
        specification_hash(a_job(), [], {"spot": "g5.xlarge"}),
    }
    assert len(hashes) == 4


def test_what_is_rendered_would_be_a_good_object_but_for_our_own_marks() -> None:
    """The structure that rendering makes is held to the schemas too: only the reserved marks are refused."""
    job = rendered(a_job(gpus=1), spot=SpotRequest(instance_type="g5.xlarge"))
    job["spec"]["suspend"] = False
    for found in (job, job["spec"]["template"]):
        found["metadata"]["labels"], found["metadata"]["annotations"] = {}, {}
    main_of(job)["env"] = []
    assert admit(job, policy=Policy(security=Security(block_run_as_root=True))).name == "train-0123456789ab-2"
