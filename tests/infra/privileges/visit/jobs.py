"""Jobs: how they end, what is refused, what is in the way, what nobody told."""

from __future__ import annotations

import json

from tests.infra.privileges.visit.objects import LARGE, a_job, left_behind, stray, supporting
from tests.infra.privileges.visit.visitor import NAMESPACE, Visitor, until


async def jobs(visitor: Visitor) -> None:
    """Large manifests, logs that were kept, a release that only the observer makes, spot prices, limits of time, cancels."""
    await visitor.fault(method="PATCH", path="/jobs/unreleased", status=503, times=100)
    unreleased = [await visitor.submit("unreleased", noise=LARGE, target_region=region) for region in visitor.fleet.options.regions]
    for job_id in unreleased:
        await until(lambda job_id=job_id: visitor.is_in(job_id, ("pending",)), "the job is committed")
    for region in visitor.fleet.options.regions:
        visitor.fleet.kill(f"dispatcher-{region}-1")
    await visitor.no_faults()
    large = await visitor.submit("large", noise=LARGE)
    spot = await visitor.submit("spot", spot_instance_type="g5.12xlarge", max_spot_price=1.5)
    waits = await visitor.submit("waits", spot_instance_type="g5.12xlarge", max_spot_price=0.01, timeouts={"queue_seconds": 2})
    slow = await visitor.submit("slow", manifest=a_job("slow", duration=600), timeouts={"execution_seconds": 2})
    cancelled = [
        await visitor.submit("cancelled", manifest=a_job("cancelled", duration=600), target_region=region)
        for region in visitor.fleet.options.regions
    ]
    flaky = await visitor.submit("flaky", manifest=a_job("flaky", exit_code="1,0"), retry={"max_attempts": 2, "backoff_seconds": 1})
    for job_id in cancelled:
        await visitor.until(job_id, "running")
    await visitor.fleet.invoke("gpufleet-health", json.dumps({"task": "health"}))
    # A cluster that doesn't delete at once: the bell is put off.
    await visitor.fault(method="DELETE", path="/jobs/cancelled", status=503, retry_after=1, times=3)
    for job_id in cancelled:
        await visitor.ask("DELETE", f"/api/v1/queue/jobs/{job_id}")
    await visitor.ask("DELETE", f"/api/v1/queue/jobs/{spot}")
    for job_id, state in (
        (large, "succeeded"),
        *((one, "succeeded") for one in unreleased),
        (flaky, "succeeded"),
        (slow, "failed"),
        (waits, "failed"),
    ):
        await visitor.until(job_id, state)
    for job_id in cancelled:
        await visitor.until(job_id, "cancelled")
    await visitor.ask("GET", f"/fleet/v1/jobs/{large}/logs")
    await visitor.ask("GET", f"/fleet/v1/jobs/{large}/events")
    await visitor.ask("GET", f"/fleet/v1/jobs/{flaky}/executions")
    await visitor.ask("GET", "/api/v1/queue/jobs", params={"namespace": NAMESPACE, "status": "completed"})
    await visitor.ask("GET", "/api/v1/queue/jobs", params={"target_region": region})
    await visitor.ask("POST", "/api/v1/queue/poll", params={"limit": 5})


async def what_is_refused(visitor: Visitor) -> None:
    """A release that the cluster refuses: the dispatcher asks for a stop."""
    await visitor.fault(method="PATCH", path="/jobs/refused", status=403)
    for job_id in [await visitor.submit("refused", target_region=region) for region in visitor.fleet.options.regions]:
        await visitor.until(job_id, "failed")


async def what_is_in_the_way(visitor: Visitor) -> None:
    """What others of the fleet left behind under a name gives way, for dispatchers and for observers who do their work."""
    regions = visitor.fleet.options.regions
    for region in regions:
        job_id = await visitor.submit("owner", target_region=region)
        owner = (await visitor.until(job_id, "succeeded"))["executions"][-1]["object"]
        for name in ("leftover", "unsupported"):
            for kind in ("services", "configmaps"):
                await visitor.on_cluster(region, "POST", f"/api/v1/namespaces/{NAMESPACE}/{kind}", json=left_behind(name, kind, owner))
    for job_id in [await visitor.submit("leftover", supporting=supporting("leftover"), target_region=region) for region in regions]:
        await visitor.until(job_id, "succeeded")
    # Answers that are lost: what was made is found, and applied over.
    for kind in ("services", "configmaps"):
        await visitor.fault(method="POST", path=f"/{kind}$", action="apply_then_drop")
    for job_id in [await visitor.submit("twice", supporting=supporting("twice"), target_region=region) for region in regions]:
        await visitor.until(job_id, "succeeded")
    await visitor.no_faults()
    await visitor.fault(method="POST", path="/(services|configmaps)$", status=503, times=100)
    ids = [await visitor.submit("unsupported", supporting=supporting("unsupported"), target_region=region) for region in regions]
    for job_id in ids:
        await visitor.until(job_id, "pending")
    for region in regions:
        visitor.fleet.kill(f"dispatcher-{region}-1")
    await visitor.no_faults()
    for job_id in ids:
        await visitor.until(job_id, "succeeded")


async def what_nobody_told(visitor: Visitor) -> None:
    """An object that nobody committed, of a job that has ended; one deleted without its pods; and a pass of dispatch by hand."""
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    for region in visitor.fleet.options.regions:
        job_id = await visitor.submit("ended", target_region=region)
        ended = (await visitor.until(job_id, "succeeded"))["executions"][-1]["object"]["name"]
        await visitor.on_cluster(region, "POST", path, json=stray(await visitor.on_cluster(region, "GET", f"{path}/{ended}")))
        await until(lambda region=region, ended=ended: _is_gone(visitor, region, f"{path}/{ended}-stray"), "a stray object is deleted")
        job_id = await visitor.submit("left", manifest=a_job("left", duration=600), target_region=region)
        left = (await visitor.until(job_id, "running"))["executions"][-1]["object"]["name"]
        await visitor.on_cluster(region, "DELETE", f"{path}/{left}", params={"propagationPolicy": "Orphan"})
        await visitor.until(job_id, "failed")
    region = visitor.fleet.options.regions[0]
    with visitor.fleet.paused(f"dispatcher-{region}-1"):
        job_id = await visitor.submit("polled", target_region=region, supporting=supporting("polled"))
        await visitor.ask("POST", "/api/v1/queue/poll", params={"limit": 5})
    await visitor.until(job_id, "succeeded")


async def _is_gone(visitor: Visitor, region: str, path: str) -> bool:
    try:
        await visitor.on_cluster(region, "GET", path)
    except AssertionError as error:
        return "NotFound" in str(error)
    return False
