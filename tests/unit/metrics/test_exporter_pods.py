"""Which pods are exporters, and on which port they tell."""

from __future__ import annotations

from typing import Any

import pytest

from shared.metrics.exporters import exporter_of, port_of


def pod(*, phase: str | None = "Running", node: str | None = "n", ports: Any = (), image: str = "x", **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, "ports": [dict(port) for port in ports]}
    return {
        "metadata": {"name": "p", "namespace": "s", "uid": "u", **metadata},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "podIP": "10.0.0.9"} if phase else {},
    }


NAMED = {"name": "metrics", "containerPort": 9401}
OTHER = {"name": "health", "containerPort": 8080}


@pytest.mark.parametrize(
    ("found", "port"),
    [
        (pod(annotations={"prometheus.io/port": "1234"}, ports=[NAMED]), 1234),
        (pod(annotations={"prometheus.io/port": "no"}, ports=[NAMED]), 9401),
        (pod(annotations={"prometheus.io/port": "70000"}, ports=[OTHER]), 8080),
        (pod(ports=[OTHER, NAMED]), 9401),
        (pod(ports=[OTHER]), 8080),
        (pod(ports=[OTHER, {"containerPort": 9}], image="nvidia/dcgm-exporter:4"), 9400),
        (pod(labels={"app": "nvidia-dcgm-exporter"}), 9400),
        (pod(image="rocm/device-metrics-exporter:v1"), 5000),
        (pod(labels=None, annotations=None), 5000),
    ],
)
def test_a_port_is_told_by_annotation_or_name_or_is_the_default_of_its_make(found, port):
    assert port_of(found) == port


@pytest.mark.parametrize(
    "none",
    [
        pod(node=None),
        pod(phase="Failed"),
        pod(phase="Succeeded"),
        pod(deletionTimestamp="2026-01-01T00:00:00Z"),
        pod(labels={"gpufleet.io/managed": "true", "app": "nvidia-dcgm-exporter"}),
    ],
)
def test_what_runs_nowhere_or_no_more_or_for_a_job_is_no_exporter(none):
    assert exporter_of(none) is None


def test_one_that_does_not_run_yet_says_why_it_is_not_asked():
    assert exporter_of(pod(phase="Pending")).waiting == "the pod is Pending"
    assert exporter_of(pod(phase=None)).waiting == "the pod is Pending"
    running = exporter_of(pod())
    assert (running.waiting, running.node, running.address) == (None, "n", "10.0.0.9")
