"""Bodies of the GCO door's policy. What the original has not is marked as an addition."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from workers.api.gco.schemas import Env


class ConfiguredCaps(BaseModel):
    """The caps as Kubernetes writes quantities."""

    max_cpu_per_manifest: str
    max_memory_per_manifest: str
    max_gpu_per_manifest: int


class ManifestCaps(BaseModel):
    """What one manifest may hold at once: a pod, times the pods that run together."""

    max_cpu_millicores: int
    max_memory_bytes: int
    max_gpu_count: int
    configured: ConfiguredCaps


class SecurityPolicy(BaseModel):
    """The eight switches; true refuses."""

    block_privileged: bool
    block_privilege_escalation: bool
    block_host_network: bool
    block_host_pid: bool
    block_host_ipc: bool
    block_host_path: bool
    block_added_capabilities: bool
    block_run_as_root: bool


class JobValidationPolicy(BaseModel):
    """The policy that the validator of this process asks."""

    validation_enabled: bool = Field(description="Always true: nothing gets in unchecked.")
    manifest_caps: ManifestCaps
    allowed_namespaces: list[str] = Field(description="Those that the caller may use.")
    allowed_kinds: list[str] = Field(description="Kinds that may be applied directly.")
    allowed_api_versions: dict[str, list[str]]
    trusted_registries: list[str]
    trusted_dockerhub_orgs: list[str]
    require_accelerator_toleration: bool
    yaml_max_depth: int
    manifest_security_policy: SecurityPolicy
    queue_kinds: list[str] = Field(description="Addition: kinds that may be a job of the queue.")
    supporting_kinds: list[str] = Field(description="Addition: kinds that may stand beside a job of the queue.")
    gpu_resources: list[str] = Field(description="Addition: resources that count as GPUs.")
    accelerator_taints: list[str] = Field(description="Addition: resources whose nodes' taint must be tolerated.")
    allowed_service_accounts: list[str] = Field(description="Addition.")
    max_object_bytes: int = Field(description="Addition: one object as compact JSON.")
    max_specification_bytes: int = Field(description="Addition: a job of the queue and what stands beside it.")


class LimitRangeItem(BaseModel):
    """One entry of a LimitRange, with the fields that it has."""

    type: str | None = None
    max: dict[str, Any] | None = None
    min: dict[str, Any] | None = None
    default: dict[str, Any] | None = None
    defaultRequest: dict[str, Any] | None = None  # noqa: N815 - the name in Kubernetes, which is the name on the wire
    maxLimitRequestRatio: dict[str, Any] | None = None  # noqa: N815 - the same


class Enforced(BaseModel):
    """What the cluster enforces in a namespace besides, each by its object's name."""

    status: Literal["ok"]
    resource_quotas: dict[str, dict[str, Any]]
    resource_quota_usage: dict[str, dict[str, Any]] = Field(description="Addition: what the namespace has of its quotas now.")
    limit_ranges: dict[str, list[LimitRangeItem]]


class Unavailable(BaseModel):
    """It could not be read."""

    status: Literal["unavailable"]
    reason: str


class PolicyAnswer(Env):
    """The policy as it is enforced, and what the cluster enforces in each namespace that the caller sees."""

    service: str
    source: Literal["deployed-cluster-runtime"]
    policy: JobValidationPolicy
    cluster_enforcement: dict[str, Enforced | Unavailable]
