import pytest

from tests.unit.cluster_sim.harness import CONFIG_MAPS, JOBS, PODS, Bench, config_map, job


def test_a_created_job_has_identity_defaults_and_labels_on_its_template(bench):
    created = bench.post(JOBS, job("train")).json

    assert created["apiVersion"] == "batch/v1"
    assert created["metadata"]["generation"] == 1
    assert created["metadata"]["namespace"] == "default"
    assert created["metadata"]["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert created["spec"]["backoffLimit"] == 6
    assert created["spec"]["completions"] == created["spec"]["parallelism"] == 1
    labels = created["spec"]["template"]["metadata"]["labels"]
    assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == "train"
    assert labels["batch.kubernetes.io/controller-uid"] == created["metadata"]["uid"]


def test_a_second_object_of_the_same_name_is_refused(bench):
    bench.post(JOBS, job("train"))

    answer = bench.post(JOBS, job("train"))

    assert answer.refusal == (409, "AlreadyExists")
    assert answer.json["message"] == 'jobs.batch "train" already exists'
    assert answer.json["details"] == {"name": "train", "group": "batch", "kind": "jobs"}


def test_a_name_can_be_generated(bench):
    body = config_map("")
    body["metadata"] = {"generateName": "values-"}

    first, second = (bench.post(CONFIG_MAPS, body).json["metadata"]["name"] for _ in range(2))

    assert first.startswith("values-")
    assert len(first) == len("values-") + 5
    assert first != second


def test_a_namespace_must_be_there(bench):
    answer = bench.post("/apis/batch/v1/namespaces/nowhere/jobs", job("train"))

    assert answer.refusal == (404, "NotFound")
    assert answer.json["message"] == 'namespaces "nowhere" not found'


def test_the_namespace_of_body_and_path_must_agree(bench):
    body = config_map("values", metadata={"namespace": "kube-system"})

    assert bench.post(CONFIG_MAPS, body).refusal == (400, "BadRequest")


def test_a_kind_at_the_wrong_path_is_a_bad_request(bench):
    assert bench.post(CONFIG_MAPS, job("train")).refusal == (400, "BadRequest")


def test_a_body_that_is_no_json_is_a_bad_request(bench):
    answer = bench.cluster.request("POST", JOBS, {}, {}, b"{not json")

    assert answer.status == 400


def test_a_dry_run_stores_nothing(bench):
    assert bench.post(JOBS, job("train"), dryRun="All").status == 201
    assert bench.get(f"{JOBS}/train").status == 404


def test_what_etcd_cannot_hold_is_too_large():
    bench = Bench(etcd_limit_bytes=10_000)

    assert bench.post(CONFIG_MAPS, config_map("small", data={"text": "é" * 4_000})).status == 201
    assert bench.post(CONFIG_MAPS, config_map("large", data={"text": "é" * 5_000})).refusal == (413, "RequestEntityTooLarge")


def test_a_body_above_three_mebibytes_is_too_large(bench):
    answer = bench.post(CONFIG_MAPS, config_map("large", data={"text": "x" * 3_200_000}))

    assert answer.refusal == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (job("Train"), "metadata.name"),
        (job("t" * 64), "metadata.name"),
        (job("train", labels={"key": "not valid"}), "metadata.labels"),
        (job("train", annotations={"key": "x" * 300_000}), "metadata.annotations"),
        (job("train", restart="Always"), "spec.template.spec.restartPolicy"),
        (job("train", pod={"containers": []}), "spec.template.spec.containers"),
        (job("train", container={"image": ""}), "spec.template.spec.containers[0].image"),
        (job("train", container={"name": "Main"}), "spec.template.spec.containers[0].name"),
        (
            job("train", container={"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
            "spec.template.spec.containers[0].resources.requests",
        ),
        (
            job("train", container={"resources": {"requests": {"nvidia.com/gpu": 1}}}),
            "spec.template.spec.containers[0].resources.limits",
        ),
        (job("train", parallelism=-1), "spec.parallelism"),
        (job("train", completionMode="Indexed", parallelism=2), "spec.completions"),
    ],
)
def test_an_invalid_job_is_refused_with_the_field(bench, body, field):
    answer = bench.post(JOBS, body)

    assert answer.refusal == (422, "Invalid")
    assert field in [cause["field"] for cause in answer.json["details"]["causes"]]


def test_an_invalid_pod_is_refused(bench):
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}}

    answer = bench.post(PODS, body)

    assert answer.json["details"]["causes"][0]["reason"] == "FieldValueDuplicate"


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "train"}, "spec": {"template": "text"}},
        {"metadata": "text"},
        {"metadata": {"name": 5}},
        job("train", container={"env": [{"name": "A", "value": 1}]}),
        job("train", pod={"tolerations": "all"}),
        job("train", parallelism="two"),
        ["a", "list"],
    ],
)
def test_a_body_of_wrong_types_is_a_bad_request(bench, body):
    assert bench.post(JOBS, body).refusal == (400, "BadRequest")


@pytest.mark.parametrize("quantity", ["1 Gi", "1K", "NaN", ""])
def test_an_ill_formed_quantity_is_a_bad_request(bench, quantity):
    answer = bench.post(JOBS, job("train", container={"resources": {"requests": {"memory": quantity}}}))

    assert answer.status == 400


def test_unknown_fields_are_refused_where_that_is_asked_for(bench):
    body = job("train", podd={"x": 1}, suspend="yes")

    answer = bench.post(JOBS, body, fieldValidation="Strict")

    assert answer.refusal == (400, "BadRequest")
    assert 'unknown field "spec.podd"' in answer.json["message"]
    assert '"spec.suspend" must be true or false' in answer.json["message"]


def test_unknown_fields_are_dropped_otherwise(bench):
    many = {f"odd/{number}": number for number in range(150)}

    created = bench.post(JOBS, job("train", podd={"x": 1}, suspend=True, **many)).json

    assert not [field for field in created["spec"] if "odd" in field]
    assert created["spec"]["suspend"] is True


def test_what_is_missing_is_invalid_also_where_fields_are_strict(bench):
    body = {"metadata": {"name": "train"}, "spec": {"template": {"spec": {"restartPolicy": "Never"}}}}

    assert bench.post(JOBS, body, fieldValidation="Strict").refusal == (422, "Invalid")
    assert bench.post(JOBS, job("train"), fieldValidation="Strict").status == 201
    assert bench.patch(f"{JOBS}/train", {"spec": {"x": 1}}, fieldValidation="Strict").status == 400


def test_secrets_encode_their_plain_strings(bench):
    body = {"metadata": {"name": "token"}, "stringData": {"key": "value"}}

    created = bench.post("/api/v1/namespaces/default/secrets", body).json

    assert created["data"] == {"key": "dmFsdWU="}
    assert created["type"] == "Opaque"
    assert "stringData" not in created


def test_services_get_an_address_and_claims_are_bound(bench):
    service = bench.post("/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).json
    claim = bench.post("/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": {}}).json

    assert service["spec"]["clusterIP"].startswith("10.100.")
    assert service["spec"]["ports"] == [{"protocol": "TCP", "targetPort": 80, "port": 80}]
    assert claim["status"]["phase"] == "Bound"


def test_equal_seeds_and_requests_give_equal_clusters():
    def play(seed: int) -> str:
        bench = Bench(seed=seed)
        bench.start("train", parallelism=3, steer={"exit-code": "1,0"})
        bench.run(20)
        return bench.get("/api/v1/pods").text + bench.get("/api/v1/events").text + bench.get(JOBS).text

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_how_finely_time_is_stepped_changes_nothing():
    def play(step: float) -> str:
        bench = Bench()
        bench.post(JOBS, job("train", steer={"exit-code": "1,1,0"}))
        for _ in range(round(16 / step)):
            bench.now += step
            bench.cluster.advance()
        return bench.get(JOBS).text + bench.get("/api/v1/events").text

    assert play(16) == play(0.25)
