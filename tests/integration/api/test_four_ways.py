"""The four ways to submit (queue message, queue API, manifests, template) and validation: one policy, the same words."""

from __future__ import annotations

import copy
import json

import pytest

from shared.queues.queue import Queue
from tests.integration.api.conftest import manifest
from workers.ingest.ingest import Outcome, build

QUEUE = "/api/v1/queue/jobs"
MANIFESTS = "/api/v1/manifests"


def limits(**resources):
    """A Job with these limits, which tolerates every taint."""
    found = manifest(resources={"limits": resources})
    found["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    return found


def bad_job():
    """A Job that breaks rules of its structure, its metadata, its pods and its resources."""
    found = limits(cpu="1 Gi", memory="1Gi") | {"metadata": {"name": "train", "labels": {"gpufleet.io/managed": "true"}}}
    spec = found["spec"]
    spec |= {"backofLimit": 1, "completions": -1}
    spec["template"]["spec"] |= {"hostNetwork": True, "restartPolicy": "Always", "serviceAccountName": "admin"}
    spec["template"]["spec"]["containers"][0] |= {"image": "evil/miner", "securityContext": {"privileged": True}}
    return found


def too_many():
    found = limits(**{"nvidia.com/gpu": 8})
    found["spec"]["parallelism"] = 1000
    return found


def told(problems, place):
    """Pointers within the manifest, with the rules; each way puts its own place in front."""
    assert all(one["pointer"].startswith(place) for one in problems), problems
    return sorted((one["pointer"].removeprefix(place), one["rule"]) for one in problems)


def of_detail(answer, place):
    assert answer.status_code == 422, answer.text
    return told([{"pointer": one["pointer"], "rule": one["msg"]} for one in answer.json()["detail"]], place)


async def by_queue_api(client, found):
    return of_detail(await client.post(QUEUE, json={"manifest": found, "target_region": "us-east-1"}), "/manifest")


async def by_manifests(client, found):
    return of_detail(await client.post(MANIFESTS, json={"manifests": [found], "namespace": "gco-jobs"}), "/manifests/0")


async def by_validation(client, found):
    answer = await client.post(f"{MANIFESTS}/validate", json={"manifests": [found]})
    assert answer.status_code == 200, answer.text
    [result] = answer.json()["results"]
    assert result["valid"] is (not result["problems"])
    return told(result["problems"], "/manifests/0")


async def by_template(client, found):
    return of_detail(await client.post("/api/v1/templates", json={"name": "t", "manifest": found}), "/manifest")


async def by_message(client, resources, found):
    """Dropped on the submissions queue; the rejection is read through the API."""
    settings, aws = resources.settings, resources.aws
    queue = await Queue.open(aws.sqs, settings.submissions_queue)
    ingest = await build(settings, aws)
    await aws.sqs.send_message(QueueUrl=queue.url, MessageBody=json.dumps({"manifest": found, "target_region": "us-east-1"}))
    assert await ingest.handle_all(await queue.receive(wait_seconds=1)) == [Outcome.REJECTED]
    [rejection] = (await client.get("/fleet/v1/rejections")).json()["rejections"]
    return told(rejection["problems"], "/manifest")


BAD = {
    "many faults": (
        bad_job(),
        [
            "/metadata/labels/gpufleet.io~1managed",
            "/spec/backofLimit",
            "/spec/completions",
            "/spec/template/spec/containers/0/image",
            "/spec/template/spec/containers/0/resources/limits/cpu",
            "/spec/template/spec/containers/0/securityContext/privileged",
            "/spec/template/spec/hostNetwork",
            "/spec/template/spec/restartPolicy",
            "/spec/template/spec/serviceAccountName",
        ],
    ),
    "more than the cap": (too_many(), ["/spec/parallelism"]),
    "another version": (manifest() | {"apiVersion": "batch/v1beta1"}, ["/apiVersion"]),
    "no kind": ({key: value for key, value in manifest().items() if key != "kind"}, ["/kind"]),
    "an own selector": (
        manifest() | {"spec": manifest()["spec"] | {"selector": {"matchLabels": {"a": "b"}}}},
        ["/spec/selector"],
    ),
}


@pytest.mark.parametrize(("found", "places"), BAD.values(), ids=BAD)
async def test_a_bad_job_is_told_in_the_same_words_by_each_way(client, fleet_resources, found, places):
    before = copy.deepcopy(found)
    answers = {
        "queue API": await by_queue_api(client, found),
        "queue message": await by_message(client, fleet_resources, found),
        "manifests": await by_manifests(client, found),
        "validation": await by_validation(client, found),
        "template": await by_template(client, found),
    }

    assert found == before
    assert [place for place, _ in answers["queue API"]] == places
    if places == ["/kind"]:  # what may stand there is another set of kinds for each
        assert {way: [place for place, _ in told] for way, told in answers.items()} == dict.fromkeys(answers, places)
    else:
        assert answers == dict.fromkeys(answers, answers["queue API"])


# Cases 17, 18 and 20, by validation and by the queue API


@pytest.mark.parametrize("quantity", ["1e3", "1E3", "100m", "0.5", ".5", "1.", "+1", "129e6", "123Mi", 2, 0.5])
async def test_every_form_of_quantity_is_admitted(client, quantity):
    found = limits(memory=quantity)

    assert await by_validation(client, found) == []
    queued = await client.post(QUEUE, json={"manifest": found, "target_region": "us-east-1"})
    assert queued.status_code == 201, queued.text
    assert queued.json()["job"]["manifest"] == found


async def test_the_largest_quantity_is_read_exactly_and_so_refused_by_the_cap(client):
    [(place, rule)] = await by_validation(client, limits(memory="1Ei"))

    assert place == "/spec/template/spec"
    assert "one pod asks for 1Ei" in rule
    assert await by_queue_api(client, limits(memory="1Ei")) == [(place, rule)]


async def test_cores_may_be_a_number(client):
    assert await by_validation(client, limits(cpu=2)) == []


@pytest.mark.parametrize("quantity", ["1K", "1 Gi", "1gi", "1GiB", "NaN", ""])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
async def test_what_is_no_quantity_is_told_with_its_place(client, quantity, resource):
    found = limits(**{resource: quantity})

    [(place, rule)] = await by_validation(client, found)
    assert place == f"/spec/template/spec/containers/0/resources/limits/{resource}"
    assert rule.startswith("must be a Kubernetes quantity")
    assert await by_queue_api(client, found) == [(place, rule)]


async def test_the_cap_counts_what_would_run(client):
    [(place, rule)] = await by_validation(client, too_many())

    assert place == "/spec/parallelism"
    assert rule.startswith("must keep the job at or below 16 GPUs: 1000 pods at once with 8 each are 8000")
    assert await by_queue_api(client, too_many()) == [(place, rule)]
