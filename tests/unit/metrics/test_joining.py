"""Whose a device is, by what the cluster has now."""

from __future__ import annotations

from typing import Any

import pytest

from shared.metrics.devices import Device, Holder, Reading, Vendor
from shared.metrics.joining import Pods, joined
from shared.metrics.snapshot import User

PROJECTS = ("example.com/project-id", "project")
JOB = "01a22dbf-a78c-7432-8323-bd802edb4689"


def pod(name: str = "p", *, on: str | None = "n1", phase: str = "Running", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "s", "labels": labels}, "spec": {"nodeName": on}, "status": {"phase": phase}}


HOLDER = Holder(namespace="s", pod="p", container="c")


def reading(hostname: str = "n1", *, holder: Holder | None = HOLDER, **labels: str) -> Reading:
    device = Device(vendor=Vendor.NVIDIA, node=hostname, index="0", uuid="GPU-1", model="H100")
    return Reading(device=device, values={}, holder=holder, labels=labels)


def only(one: Reading, *pods: dict[str, Any]):
    (found,) = joined([one], node="n1", pods=Pods(pods, project_labels=PROJECTS))
    return found


@pytest.mark.parametrize("hostname", ["n1", "n1.example.com", "10.0.1.17", "dcgm-exporter-x7k2p", "", "n2"])
def test_a_device_is_on_its_exporters_node_by_whatever_name_it_goes(hostname):
    found = only(reading(hostname), pod())

    assert found.device.node == "n1"
    assert found.user is not None


def test_a_pod_says_job_execution_submitted_name_and_project():
    labels = {
        "gpufleet.io/job-id": JOB,
        "gpufleet.io/execution": "2",
        "batch.kubernetes.io/job-name": "train-bert-bd802edb4689-2",
        "project": "gold",
    }

    assert only(reading(), pod(**labels)).user == User(
        namespace="s", pod="p", container="c", job_id=JOB, execution=2, job_name="train-bert", project="gold"
    )


def test_a_project_that_stands_on_the_job_alone_is_the_pods_too():
    carrying = pod()
    carrying["metadata"]["annotations"] = {"gpufleet.io/job-labels": '{"project":"gold","example.com/project-id":"seven"}'}

    assert only(reading(), carrying).user.project == "seven"
    carrying["metadata"]["labels"]["example.com/project-id"] = "own"
    assert only(reading(), carrying).user.project == "own"


def test_a_job_of_nobody_elses_fleet_has_its_own_name():
    user = only(reading(), pod(**{"batch.kubernetes.io/job-name": "plain"})).user

    assert (user.job_id, user.execution, user.job_name) == (None, None, "plain")


def test_a_project_that_the_pod_does_not_say_is_taken_from_the_exporter_in_any_spelling():
    assert only(reading(example_com_project_id="a"), pod()).user.project == "a"
    assert only(reading(PROJECT="b"), pod()).user.project == "b"
    assert only(reading(PROJECT="b"), pod(project="own")).user.project == "own"
    assert only(reading(project="b", example_com_project_id="a"), pod()).user.project == "a"


@pytest.mark.parametrize(
    "pods",
    [[], [pod("other")], [pod(phase="Succeeded")], [pod(phase="Failed")], [pod(on="n2")]],
    ids=["none", "other", "ok", "bad", "moved"],
)
def test_a_holder_that_is_not_there_any_more_is_none(pods):
    assert only(reading(), *pods).user is None


def test_only_namespaces_of_unknown_holders_are_asked_for():
    known = Pods([pod()], project_labels=())

    readings = [reading(), reading(holder=None), reading(holder=Holder(namespace="t", pod="q"))]

    assert known.unknown(readings) == {"t"}
