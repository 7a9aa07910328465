"""Manifests of several kinds, and how tests have the API apply them."""

from __future__ import annotations

import asyncio

MANIFESTS = "/api/v1/manifests"
NAMESPACE = "gco-jobs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def config(name="settings", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"a": "1"}}


def service(name="peers", port=80):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": port}]}}


async def submit(client, *manifests, **fields):
    answer = await client.post(MANIFESTS, json={"manifests": list(manifests)} | fields)
    return answer.status_code, answer.json()


def statuses(body):
    return [(one["kind"], one["name"], one["status"]) for one in body["resources"]]


async def finished(region, name):
    """Until a Job has ended."""

    async def look():
        while not (await region.api.request("GET", f"{JOBS}/{name}"))["status"].get("conditions"):
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), 20)
