"""What is applied at once and not queued: templates, manifests of every kind, a Job on many machines."""

from __future__ import annotations

import asyncio

from shared.clusters.scheduling import SINGLE_READS
from tests.infra.fleet import USERS
from tests.infra.privileges import verbs
from tests.infra.privileges.verbs import Verb
from tests.infra.privileges.visit.objects import KINDS, POD, a_job, noise
from tests.infra.privileges.visit.visitor import NAMESPACE, Visitor, until

PODS = 24
"""So many that no nine of these machines have room for them."""


async def keys_and_templates(visitor: Visitor) -> None:
    """A key of a caller; a template too large for the table, its second version, a Job of it."""
    await visitor.ask("POST", "/fleet/v1/keys", status=201, json={"name": "visitor", "rights": ["read"], "namespaces": [NAMESPACE]})
    await visitor.ask("GET", "/fleet/v1/keys")
    await visitor.ask("DELETE", "/fleet/v1/keys/visitor")
    manifest = a_job("{{name}}")
    manifest["metadata"]["annotations"] = {"noise": noise(230_000)}
    manifest["spec"]["template"]["metadata"]["annotations"]["noise"] = noise(230_000)
    await visitor.ask("POST", "/api/v1/templates", status=201, json={"name": "visit", "manifest": manifest})
    await visitor.ask("PUT", "/api/v1/templates/visit", json={"manifest": a_job("{{name}}")})
    await visitor.ask("GET", "/api/v1/templates/visit", params={"version": 1})
    await visitor.ask("GET", "/api/v1/templates")
    await visitor.ask("POST", "/api/v1/jobs/from-template/visit", status=201, json={"name": "of-visit", "namespace": NAMESPACE})
    await visitor.ask("DELETE", "/api/v1/templates/visit")


async def manifests(visitor: Visitor) -> None:
    """Every kind that may be applied directly: made, made again as it stands, changed, looked at, deleted."""
    for manifest in KINDS:
        about = {"api_version": manifest["apiVersion"], "kind": manifest["kind"]}
        path = f"/api/v1/manifests/{NAMESPACE}/{manifest['metadata']['name']}"
        changed = {**manifest, "metadata": {**manifest["metadata"], "labels": {"changed": "yes"}}}
        for body in (manifest, manifest, changed) if manifest["kind"] not in {"Job", "Pod"} else (manifest,):
            await visitor.ask("POST", "/api/v1/manifests", json={"manifests": [body], "namespace": NAMESPACE})
        await visitor.ask("GET", path, params=about)
        await visitor.ask("DELETE", path, params=about)


async def wide(visitor: Visitor) -> None:
    """A Job whose pods are on so many machines that they are listed and not read one by one; its log is followed until it is deleted."""
    manifest = a_job("wide", duration=600)
    manifest["spec"] |= {"parallelism": PODS, "completions": PODS}
    container = {**POD["containers"][0], "resources": {"limits": {"cpu": "14", "memory": "64Mi"}}}
    manifest["spec"]["template"]["spec"] = {**POD, "containers": [container]}
    await visitor.ask("POST", "/api/v1/manifests", json={"manifests": [manifest], "namespace": NAMESPACE})
    await until(lambda: _is_spread(visitor), "the pods of a Job are on many machines")
    async with asyncio.TaskGroup() as group:
        group.create_task(visitor.ask("GET", f"/api/v1/jobs/{NAMESPACE}/wide/logs", params={"follow": "true"}))
        for resource in ("jobs", "pods"):
            await until(lambda resource=resource: _is_watched(visitor, resource), f"{resource} are watched for who follows a log")
        await visitor.ask("DELETE", f"/api/v1/jobs/{NAMESPACE}/wide")


async def _is_watched(visitor: Visitor, resource: str) -> bool:
    watch = Verb(user=USERS["api"], verb="watch", resource=resource, group="batch" if resource == "jobs" else "", namespace=NAMESPACE)
    return not verbs.never_asked(verbs.read(visitor.fleet.paths.audit), [watch])


async def _is_spread(visitor: Visitor) -> bool:
    found = (await visitor.ask("GET", f"/api/v1/jobs/{NAMESPACE}/wide/pods"))["pods"]
    return len({one["node"]["name"] for one in found if one["node"]}) > SINGLE_READS
