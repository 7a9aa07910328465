"""Whose a device is, by what the cluster has now."""

from __future__ import annotations

from typing import Any

import pytest

from shared.metrics.devices import Device, Holder, Reading, Vendor
from shared.metrics.joining import Nodes, Pods, joined
from shared.metrics.snapshot import User

PROJECTS = ("example.com/project-id", "project")
JOB = "01a22dbf-a78c-7432-8323-bd802edb4689"


def node(name: str, *, hostname: str | None = None, **addresses: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": hostname} if hostname else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"addresses": [{"type": kind, "address": address} for kind, address in addresses.items()]},
    }


def pod(name: str = "p", *, on: str | None = "n1", phase: str = "Running", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "s", "labels": labels}, "spec": {"nodeName": on}, "status": {"phase": phase}}


HOLDER = Holder(namespace="s", pod="p", container="c")


def reading(hostname: str = "n1", *, holder: Holder | None = HOLDER, **labels: str) -> Reading:
    device = Device(vendor=Vendor.NVIDIA, node=hostname, index="0", uuid="GPU-1", model="H100")
    return Reading(device=device, values={}, holder=holder, labels=labels)


def only(one: Reading, *pods: dict[str, Any], nodes: Nodes | None = None, exporter: str = "n1"):
    known = Pods(pods, project_labels=PROJECTS)
    found = joined([one], exporter_node=exporter, nodes=nodes or Nodes([node("n1"), node("n2")]), pods=known)
    return found[0] if found else None


EKS = "ip-10-0-1-17.eu-west-1.compute.internal"


@pytest.mark.parametrize(
    "hostname",
    [EKS, "ip-10-0-1-17", "IP-10-0-1-17", "10.0.1.17", "host-a", "i-0abc.eu-west-1.compute.internal", "dcgm-exporter-x7k2p", ""],
)
def test_a_host_goes_by_any_name_of_its_node_and_else_by_its_exporters(hostname):
    nodes = Nodes(
        [
            node(EKS, hostname="host-a", InternalIP="10.0.1.17", InternalDNS="i-0abc.eu-west-1.compute.internal"),
            node("ip-10-0-2-2.eu-west-1.compute.internal", InternalIP="10.0.2.2"),
        ]
    )

    assert only(reading(hostname), nodes=nodes, exporter=EKS).device.node == EKS


def test_an_exporter_may_tell_of_another_node():
    assert only(reading("n2")).device.node == "n2"


def test_a_name_of_several_nodes_is_nobodys():
    nodes = Nodes([node("a.one"), node("a.two")])

    assert only(reading("a"), nodes=nodes, exporter="a.two").device.node == "a.two"


def test_a_device_whose_node_is_gone_is_gone():
    assert only(reading("n3"), exporter="n3") is None


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
