"""Jobs of a cluster, which tests make there themselves, and list and delete in bulk through the API."""

from __future__ import annotations

import asyncio

from tests.integration.region import job

NAMESPACE = "gco-jobs"
OBJECTS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
JOBS = "/api/v1/jobs"
GONE = "gone already, or about to go"


async def make(region, name, *, labels=None, namespace=NAMESPACE, **options):
    """A Job of the cluster; one that is suspended unless it is told what to do."""
    manifest = job(name, **(options or {"hang": "true"}))
    manifest["metadata"]["labels"] = labels or {}
    manifest["spec"]["suspend"] = not options
    return await region.api.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body=manifest)


async def listed(client, **query):
    answer = await client.get(JOBS, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed_when(client, right, **query):
    """Ask until the list is as it is to be."""
    async with asyncio.timeout(20):
        while not right(found := await listed(client, **query)):
            await asyncio.sleep(0.05)
    return found


async def bulk(client, **body):
    answer = await client.request("DELETE", JOBS, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def named(answer):
    return [one.get("metadata", one)["name"] for one in answer["jobs"]]
