"""What an operator may allow: the settings of admission, with GCO's defaults.

A plain dataclass and not a settings model, since the submit handler imports it on a cold start; whoever reads the environment fills it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from shared.clusters.trees import MAX_DEPTH

RULED_MAIN_KINDS: Final = (("batch/v1", "Job"),)
RULED_SUPPORTING_KINDS: Final = (("v1", "Service"), ("v1", "ConfigMap"))
RULED_MANIFEST_KINDS: Final = (
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Pod"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
)
"""The kinds that admission has rules for. A policy may allow fewer, never others: an object without rules would be a way around them."""


FILE_SETTING: Final = "GPUFLEET_POLICY_FILE"
"""The environment variable that names the policy file."""


def setting(*keys: str) -> str:
    """Keys of the policy as a refusal names them, so that its reader knows what an operator would change."""
    return f"{' or '.join(keys)} in the policy file ({FILE_SETTING})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Security:
    """The eight switches of GCO's `manifest_security_policy`, by the same names.

    What isn't here has no switch: host ports, host processes, unconfined profiles, unsafe sysctls and the like are always refused, after
    the Baseline of the Pod Security Standards (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
    """

    block_privileged: bool = True
    block_privilege_escalation: bool = True
    """Refuse an explicit `allowPrivilegeEscalation: true`."""
    block_host_network: bool = True
    block_host_pid: bool = True
    block_host_ipc: bool = True
    block_host_path: bool = True
    block_added_capabilities: bool = True
    block_run_as_root: bool = False
    """Refuse an explicit `runAsUser: 0`. Off, since most published GPU images run as root."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What a manifest may ask for."""

    allowed_namespaces: tuple[str, ...] = ("gco-jobs",)
    main_kinds: tuple[tuple[str, str], ...] = RULED_MAIN_KINDS
    """Pairs of apiVersion and kind that may be the job itself."""
    supporting_kinds: tuple[tuple[str, str], ...] = RULED_SUPPORTING_KINDS
    """Pairs of apiVersion and kind that may stand beside it."""
    manifest_kinds: tuple[tuple[str, str], ...] = RULED_MANIFEST_KINDS
    """Pairs of apiVersion and kind that may be applied to a cluster directly."""

    max_cpu: Decimal = Decimal(384)
    """Cores that one job may hold at once, over all its pods that run together."""
    max_memory: Decimal = Decimal(4096 * 1024**3)
    """Bytes, counted the same way."""
    max_gpus: int = 16
    """Devices of any kind in `gpu_resources`, counted the same way."""
    gpu_resources: tuple[str, ...] = (
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-*",
        "amd.com/gpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neurondevice",
        "aws.amazon.com/neuroncore",
        "deviceclass.resource.kubernetes.io/*",
    )
    """Resource names that count as GPUs; a `*` at the end stands for any rest. A shared or cut device counts as one.
    The last are devices by their class (dynamic resource allocation), of which a cluster may make GPUs too."""

    require_accelerator_toleration: bool = True
    accelerator_taints: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa")
    """Resources whose nodes carry the taint `<resource>=true:NoSchedule`."""

    trusted_registries: tuple[str, ...] = (
        "docker.io",
        "gcr.io",
        "quay.io",
        "registry.k8s.io",
        "k8s.gcr.io",
        "public.ecr.aws",
        "nvcr.io",
        "ghcr.io/huggingface",
    )
    """Registries, or registries with a path. `docker.io` means its official images and `trusted_dockerhub_orgs`, however written."""
    trusted_dockerhub_orgs: tuple[str, ...] = (
        "nvidia",
        "pytorch",
        "rayproject",
        "tensorflow",
        "huggingface",
        "amazon",
        "bitnami",
        "vllm",
        "lmsysorg",
        "gco",
    )

    allowed_service_accounts: tuple[str, ...] = ("default",)
    security: Security = field(default_factory=Security)

    yaml_max_depth: int = MAX_DEPTH
    """Levels of arrays and objects."""
    max_object_bytes: int = 1_441_792
    """Bytes of one object as canonical JSON: etcd's limit of a request (`--max-request-bytes`, 1.5 MiB), beyond which no cluster can store
    it, less 128 KiB for what the fleet adds (labels, annotations, environment) and what the API server does (defaults, managedFields)."""
    max_specification_bytes: int = 2 * 1024 * 1024
    """Bytes of the manifest and its supporting objects together."""

    def __post_init__(self) -> None:
        unknown = [
            pair
            for allowed, ruled in (
                (self.main_kinds, RULED_MAIN_KINDS),
                (self.supporting_kinds, RULED_SUPPORTING_KINDS),
                (self.manifest_kinds, RULED_MANIFEST_KINDS),
            )
            for pair in allowed
            if pair not in ruled
        ]
        if unknown:
            raise ValueError(f"admission has no rules for {', '.join(f'{version} {kind}' for version, kind in unknown)}")
