"""Scrapes over the wire: through the API server's proxy and from pods themselves, of exporters that are well and of those that aren't."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from shared.errors import UnavailableError
from shared.metrics.devices import Vendor
from shared.metrics.exporters import Exporter
from shared.metrics.fetching import DirectFetch, ProxyFetch, ScrapeError, direct_client
from shared.metrics.snapshot import User
from shared.metrics.vocabulary import Measure
from tests.integration.metrics.stage import JOB_ID, TEXT, Flood, of_node
from tests.unit.metrics.test_reading import AMD, NVIDIA
from workers.local.cluster import Fault, Response


async def test_gpus_of_both_makes_are_read_and_joined_to_who_holds_them(gpus):
    await gpus.run_ours("train", 2, project="gold")
    await gpus.run("stranger", 1, "amd.com/gpu", namespace="others")

    found = await gpus.until(lambda one: sum(gpu.user is not None and gpu.values[Measure.UTILIZATION] > 0 for gpu in one.gpus) == 3)

    assert [len(of_node(found, f"node-{number}")) for number in range(4)] == [4, 4, 8, 0]
    assert [gpu.device.vendor for gpu in of_node(found, "node-2")] == [Vendor.AMD] * 8
    first, second, *idle = of_node(found, "node-0")
    assert first.user == second.user
    assert first.user == User(
        namespace="gco-jobs", pod=first.user.pod, container="main", job_id=JOB_ID, execution=1, job_name="train", project="gold"
    )
    assert [gpu.user for gpu in idle] == [None, None]
    (other,) = [gpu.user for gpu in of_node(found, "node-2") if gpu.user is not None]
    assert (other.namespace, other.job_id, other.job_name) == ("others", None, "stranger")
    assert found.failures == 0
    assert [(one.node, one.gpus) for one in found.exporters] == [("node-0", 4), ("node-1", 4), ("node-2", 8)]


async def test_a_pod_that_is_gone_holds_nothing_though_its_exporter_still_says_so(gpus):
    await gpus.run_ours("train", 4)
    await gpus.until(lambda one: any(gpu.user for gpu in of_node(one, "node-0")))
    path = next(f"/api/v1/namespaces/{one.namespace}/pods/{one.pod}:9400/proxy/metrics" for one in (await gpus.ready()).exporters)
    async with gpus.api.stream(path, query={}) as chunks:
        old = b"".join([chunk async for chunk in chunks])
    gpus.instead("node-0", lambda: Response(status=200, headers=TEXT, body=old))
    assert all(gpu.user for gpu in of_node(await gpus.scraper().scrape(), "node-0"))

    await gpus.end("train-bd802edb4689-1")

    found = await gpus.until(lambda one: not any(gpu.user for gpu in one.gpus))
    assert len(of_node(found, "node-0")) == 4


async def test_a_node_that_is_gone_takes_its_gpus_with_it(gpus):
    await gpus.ready()

    gpus.cluster.interrupt_node("node-0", returns=False)

    found = await gpus.until(lambda one: not of_node(one, "node-0"))
    assert {one.node for one in found.exporters} == {"node-1", "node-2"}
    assert len(found.gpus) == 12


async def test_a_pod_that_outlives_its_node_is_not_asked(gpus):
    await gpus.ready()
    await gpus.api.request("DELETE", "/api/v1/nodes/node-0", body={})

    found = await gpus.scraper().scrape()

    assert [one.node for one in found.exporters] == ["node-1", "node-2"]
    assert found.failures == 0


async def test_an_exporter_that_hangs_is_given_up_and_stops_no_other(gpus):
    await gpus.ready()
    gpus.server.faults.add(Fault(path="dcgm-exporter.*proxy", action="delay", delay=60, times=1))

    began = time.monotonic()
    found = await gpus.scraper(seconds=0.5).scrape()

    assert time.monotonic() - began < 5
    assert found.failures == 1
    (failed,) = [one for one in found.exporters if one.error]
    assert "within 0" in failed.error or "no answer" in failed.error
    assert len(found.gpus) == 12


async def test_all_exporters_together_have_a_deadline(gpus):
    await gpus.ready()
    gpus.server.faults.add(Fault(path="proxy", action="delay", delay=60, times=3))

    began = time.monotonic()
    found = await gpus.scraper(seconds=10, deadline_seconds=0.6, concurrency=1).scrape()

    assert time.monotonic() - began < 5
    assert found.failures == 3
    assert sum("no time was left" in one.error for one in found.exporters) == 2


async def test_one_that_floods_is_cut_off_early(gpus):
    await gpus.ready()
    flood = Flood(100 * 1024 * 1024)
    gpus.instead("node-1", lambda: flood)

    found = await gpus.scraper().scrape()

    (failed,) = [one for one in found.exporters if one.error]
    assert failed.error == "the answer is larger than 4194304 bytes"
    assert flood.left > 50 * 1024 * 1024
    assert len(found.gpus) == 12


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<!doctype html><html><body>Sign in</body></html>", "text/html"),
        (b"", "text/plain"),
        (b"# HELP go_goroutines n\ngo_goroutines 5\n", "text/plain"),
        (b"\xff\xfe\x00\x01" * 100, "application/octet-stream"),
        (b"DCGM_FI_DEV_GPU_UTIL{gpu=\n" * 10, "text/plain"),
    ],
)
async def test_one_that_talks_nonsense_is_counted(gpus, body, content_type):
    await gpus.ready()
    gpus.instead("node-2", lambda: Response(status=200, headers={"Content-Type": content_type}, body=body))

    found = await gpus.scraper().scrape()

    assert [(one.node, one.error) for one in found.exporters if one.error] == [("node-2", "the answer has no GPU in it")]
    assert len(found.gpus) == 8


async def test_a_line_that_is_broken_costs_only_itself(gpus):
    await gpus.ready()
    text = NVIDIA.replace('DCGM_FI_DEV_GPU_TEMP{gpu="0"', 'DCGM_FI_DEV_GPU_TEMP{gpu="0')
    gpus.instead("node-0", lambda: Response(status=200, headers=TEXT, body=text.encode() + b"\xff"))

    found = await gpus.scraper().scrape()

    assert [(one.broken, one.error) for one in found.exporters if one.node == "node-0"] == [(1, None)]
    first, *_ = of_node(found, "node-0")
    assert Measure.JUNCTION_TEMPERATURE not in first.values
    assert first.values[Measure.UTILIZATION] == 97


async def test_a_name_that_is_no_nodes_means_the_exporters_own(gpus):
    await gpus.ready()
    gpus.instead("node-2", lambda: Response(status=200, headers=TEXT, body=AMD.encode()))

    found = await gpus.scraper().scrape()

    assert {gpu.device.model for gpu in of_node(found, "node-2")} == {"AMD Instinct MI300X OAM"}
    assert len(of_node(found, "node-2")) == 4


async def test_what_users_run_is_no_exporter_whatever_its_labels_say(gpus):
    await gpus.ready()
    await gpus.run("forged", 1, app="nvidia-dcgm-exporter")
    await gpus.run_ours("train", 1, app="nvidia-dcgm-exporter")
    await gpus.until(lambda one: sum(gpu.user is not None for gpu in one.gpus) == 2)

    believed = await gpus.scraper().scrape()
    found = await gpus.scraper(untrusted=("gco-jobs",)).scrape()

    assert [one.namespace for one in believed.exporters].count("gco-jobs") == 1
    assert [one.namespace for one in found.exporters].count("gco-jobs") == 0
    assert found.failures == 0


async def test_nobody_tells_of_another_nodes_devices(gpus):
    before = await gpus.ready()
    text = NVIDIA.replace("ip-10-0-1-17.ec2.internal", "node-0").replace(" 97", " 1").encode()
    gpus.instead("node-1", lambda: Response(status=200, headers=TEXT, body=text))

    found = await gpus.scraper().scrape()

    uuids = [gpu.device.uuid for gpu in of_node(before, "node-0")]
    assert [gpu.device.uuid for gpu in of_node(found, "node-0")] == uuids


async def test_mig_partitions_are_apart_and_their_device_stands_beside_them(gpus):
    await gpus.ready()
    label = 'gpu="0",UUID="GPU-1",modelName="H100",hostname="node-0"'
    lines = [
        f'DCGM_FI_{name}{{{label},GPU_I_PROFILE="1g.10gb",GPU_I_ID="{part}"}} {value}'
        for part in (7, 8)
        for name, value in (("PROF_GR_ENGINE_ACTIVE", part / 10), ("DEV_FB_USED", 100 * part), ("DEV_POWER_USAGE", 300))
    ]
    gpus.instead("node-0", lambda: Response(status=200, headers=TEXT, body="\n".join(lines).encode()))

    found = of_node(await gpus.scraper().scrape(), "node-0")

    assert [(gpu.label, dict(gpu.values)) for gpu in found] == [
        ("0", {Measure.POWER: 300}),
        ("0/7", {Measure.VRAM_USED: 700, Measure.UTILIZATION: 70}),
        ("0/8", {Measure.VRAM_USED: 800, Measure.UTILIZATION: 80}),
    ]


async def test_a_device_that_two_exporters_tell_of_is_there_once(gpus):
    await gpus.ready()
    selectors = ("app=nvidia-dcgm-exporter", "app.kubernetes.io/component=nvidia-dcgm-exporter")

    found = await gpus.scraper(selectors=selectors).scrape()
    assert (len(found.exporters), len(found.gpus)) == (2, 8)

    gpus.instead("node-0", lambda: Response(status=200, headers=TEXT, body=(NVIDIA + NVIDIA.replace("GPU-", "MIG-")).encode()))
    assert len(of_node(await gpus.scraper(selectors=selectors).scrape(), "node-0")) == 4


async def test_without_the_api_server_there_is_no_scrape(gpus):
    await gpus.ready()
    gpus.server.faults.add(Fault(path="/api/v1/nodes", status=403))

    with pytest.raises(UnavailableError, match="us-east-1"):
        await gpus.scraper().scrape()


async def test_a_refusal_of_the_proxy_is_that_exporters_failure(gpus):
    await gpus.ready()
    gpus.server.faults.add(Fault(path="proxy", status=403, times=3))

    found = await gpus.scraper().scrape()

    assert found.gpus == ()
    assert all("403" in one.error or "fault was injected" in one.error for one in found.exporters)


@asynccontextmanager
async def listening(handle) -> AsyncIterator[Exporter]:
    """A pod that serves `/metrics` itself."""
    app = web.Application()
    app.router.add_get("/metrics", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield Exporter(namespace="s", pod="p", uid="u", node="n", port=port, address="127.0.0.1")
    finally:
        await runner.cleanup()


async def test_a_pod_is_read_at_its_own_address():
    async def tell(_):
        return web.Response(text=NVIDIA)

    async with listening(tell) as exporter, direct_client(4) as client:
        assert await DirectFetch(client)(exporter, seconds=5) == NVIDIA


@pytest.mark.parametrize("what", ["hangs", "trickles", "floods", "redirects", "refuses", "nobody", "nowhere"])
async def test_a_pod_that_misbehaves_costs_no_more_than_its_time(what):
    async def misbehave(request):
        if what == "hangs":
            await asyncio.sleep(60)
        if what == "redirects":
            raise web.HTTPFound("http://127.0.0.1:1/")
        if what == "refuses":
            return web.Response(status=500)
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * (1 if what == "trickles" else 65536))
            await asyncio.sleep(0.05 if what == "trickles" else 0)

    began = time.monotonic()
    async with listening(misbehave) as exporter, direct_client(4) as client:
        asked = {"nobody": replace(exporter, port=1), "nowhere": replace(exporter, address=None)}.get(what, exporter)
        with pytest.raises(ScrapeError):
            await DirectFetch(client, most_bytes=1024 * 1024)(asked, seconds=0.5)
    assert time.monotonic() - began < 5


async def test_the_proxy_is_asked_at_the_port_that_the_pod_has(gpus):
    found = await gpus.ready()
    one = found.exporters[0]
    exporter = Exporter(namespace=one.namespace, pod=one.pod, uid="u", node=one.node, port=9)

    with pytest.raises(ScrapeError, match="connection refused"):
        await ProxyFetch(gpus.api)(exporter, seconds=5)
