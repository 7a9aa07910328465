"""What the API says of itself: its root, probes, health and status."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field


class RootAnswer(BaseModel):
    """What this service is."""

    service: str
    version: str
    status: Literal["running"]
    cluster_id: str
    region: str
    endpoints: dict[str, str]


class ProbeAnswer(BaseModel):
    """A probe's answer."""

    status: str


class HealthAnswer(BaseModel):
    """Health of the service. `kubernetes_api` tells whether the region's observer has reported lately."""

    status: Literal["healthy", "unhealthy"]
    timestamp: datetime
    cluster_id: str
    region: str
    kubernetes_api: Literal["connected", "disconnected"]


class Environment(BaseModel):
    """Settings as clients of the original read them."""

    cluster_name: str
    region: str
    max_cpu_per_manifest: str
    max_memory_per_manifest: str
    max_gpu_per_manifest: str
    allowed_namespaces: str
    validation_enabled: str


class QueueWorker(BaseModel):
    """The dispatcher inside this process (`python -m workers.together`); not enabled where dispatchers are programs of their own."""

    enabled: bool
    running: bool
    stopping: bool
    owner: str | None
    last_pass_started_at: datetime | None
    last_successful_pass_at: datetime | None
    last_error: str | None


class ResourceLimits(BaseModel):
    """What one job may hold at once."""

    max_cpu_millicores: int
    max_memory_bytes: int
    max_gpu_count: int


class ServiceStatus(BaseModel):
    """Status of the service."""

    service: str
    version: str
    timestamp: datetime
    manifest_processor_initialized: bool
    environment: Environment
    templates_count: int
    webhooks_count: int
    counts_known: bool = Field(description="Whether the two counts could be read; where not, they are 0.")
    central_queue_worker: QueueWorker
    cluster_id: str
    region: str
    resource_limits: ResourceLimits
    allowed_namespaces: list[str]
    validation_enabled: bool
