"""What the pods of a Job use, through the GCO door, and what is told where nobody has measured it."""

from __future__ import annotations

import pytest

from tests.integration.api.job_views import NAMESPACE, running, start, until, view


@pytest.fixture
async def client(cluster_client):
    return cluster_client


async def test_what_the_pods_of_a_job_use(client, region):
    await start(region, limits={"cpu": "500m", "memory": "1Gi"}, parallelism=3, completions=3)
    await start(region, "other")

    found = await until(client, lambda found: all("containers" in pod for pod in found["pods"]), what="/metrics")

    assert (found["job_name"], found["namespace"], found["available"], found["message"]) == ("train", NAMESPACE, True, None)
    assert {pod["pod_name"] for pod in found["pods"]} == {pod["metadata"]["name"] for pod in (await view(client, what="/pods"))["pods"]}
    used = [container for pod in found["pods"] for container in pod["containers"]]
    assert [container["name"] for container in used] == ["main"] * 3
    assert all(150 < container["cpu_millicores"] < 500 for container in used)
    assert all(2**28 < container["memory_bytes"] < 2**30 for container in used)
    assert used[0]["memory_mib"] == round(used[0]["memory_bytes"] / 2**20, 2)
    summary = found["summary"]
    assert summary["pod_count"] == 3
    assert summary["total_cpu_millicores"] == sum(container["cpu_millicores"] for container in used)
    assert summary["total_memory_bytes"] == sum(container["memory_bytes"] for container in used)
    assert summary["total_memory_mib"] == round(summary["total_memory_bytes"] / 2**20, 2)


async def test_a_pod_without_a_sample_says_so(client, region):
    await start(region, steer={"duration": "0"})
    await until(client, lambda found: found["computed_status"] == "succeeded")

    found = await view(client, what="/metrics")

    (pod,) = found["pods"]
    assert found["available"] is True
    assert pod["error"] == "Metrics not available: there is no sample of this pod, which is Succeeded"
    assert found["summary"] == {"total_cpu_millicores": 0, "total_memory_bytes": 0, "total_memory_mib": 0.0, "pod_count": 1}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "this cluster has no metrics server: it does not serve metrics.k8s.io"),
        (503, "metrics.k8s.io does not answer: "),
        (403, "metrics.k8s.io does not answer: "),
    ],
)
async def test_a_cluster_without_a_metrics_server_is_told_of(client, region, status, message):
    await start(region)
    await until(client, running(1), what="/pods")
    region.fault(path="/apis/metrics.k8s.io/", status=status)

    found = await view(client, what="/metrics")

    assert found["available"] is False
    assert found["message"].startswith(message)
    assert found["summary"] == {"total_cpu_millicores": 0, "total_memory_bytes": 0, "total_memory_mib": 0.0, "pod_count": 1}
    assert [pod["error"] for pod in found["pods"]] == ["Metrics not available"]
