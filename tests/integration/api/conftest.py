"""The app over the emulator, served in the process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.identity.callers import Caller
from workers.api.app import create_app
from workers.api.cluster_access import ClusterAccess
from workers.api.core import Core, build


@pytest.fixture
async def core(fleet_resources) -> Core:
    return await build(fleet_resources.settings, fleet_resources.aws)


@pytest.fixture
async def client(core) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(core) as found:
        yield found


@pytest.fixture
async def shared_core(aws, shared_settings) -> Core:
    """A core over the fleet that tests share."""
    return await build(shared_settings, aws)


@pytest.fixture
async def shared_client(shared_core) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(shared_core) as found:
        yield found


@pytest.fixture
async def nothing_is_stored(shared_client) -> AsyncIterator[None]:
    """Whatever a test sends to the shared fleet, no job comes of it."""
    before = (await shared_client.get("/api/v1/queue/stats")).json()
    yield
    assert (await shared_client.get("/api/v1/queue/stats")).json()["by_region"] == before["by_region"]


@pytest.fixture
async def cluster_access(region, tmp_path) -> AsyncIterator[ClusterAccess]:
    """The way to the cluster of the test's region."""
    access = ClusterAccess(region.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"}))
    yield access
    await access.close()


@pytest.fixture
async def cluster_core(region, cluster_access) -> Core:
    """A core beside the cluster of the test's region."""
    return await build(region.settings, region.aws, access=cluster_access)


@pytest.fixture
async def cluster_client(cluster_core) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(cluster_core) as found:
        yield found


def serving(core: Core) -> httpx.AsyncClient:
    """A client of an app over this core; what the app raises is an answer, as it is for a real client."""
    transport = httpx.ASGITransport(app=create_app(core), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://fleet")


def manifest(name: str = "train", **container) -> dict:
    """A Job that the policy admits."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
                    "containers": [
                        {
                            "name": "main",
                            "image": "pytorch/pytorch:2.5.0",
                            "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}},
                        }
                        | container
                    ],
                }
            }
        },
    }


def submission(**fields) -> dict:
    """The body of a submission."""
    return {"manifest": manifest(), "target_region": "us-east-1"} | fields


def serving_caller(core: Core, caller: Caller) -> httpx.AsyncClient:
    """A client of an app that takes every request for one of this caller."""
    app = create_app(core)
    app.user_middleware.append(Middleware(_CallerIs, caller=caller))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app, raise_app_exceptions=False), base_url="http://fleet")


class _CallerIs:
    def __init__(self, app: ASGIApp, *, caller: Caller) -> None:
        self._app = app
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["caller"] = self._caller
        await self._app(scope, receive, send)
