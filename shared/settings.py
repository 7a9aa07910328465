"""The settings of every program, read from the environment (`GPUFLEET_…`) once at its start.

AWS itself is set as everywhere: `AWS_REGION`, `AWS_ENDPOINT_URL`, credentials.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from shared.errors import InvalidError, Problem
from shared.rules import rule_of

_EKS_CLUSTER = re.compile(r"([a-z]{2}(-[a-z]+)+-\d=[0-9A-Za-z][A-Za-z0-9_-]{0,99}|([0-9A-Za-z][A-Za-z0-9_-]*)?\{region\}[A-Za-z0-9_-]*)")
"""`<region>=<name>` or a pattern. Names: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html"""
T = TypeVar("T", bound=BaseSettings)
_ROLLUP = r"^region(\+(node|device|vendor|namespace|project|job_id))*$"


class Settings(BaseSettings):
    """What an installation decides. Durations in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix="GPUFLEET_", frozen=True, extra="ignore", allow_inf_nan=False)

    control_region: str = "us-east-1"
    """The AWS region of the table, the bucket and all queues: a conditional write is only safe in one place."""

    regions: Annotated[tuple[str, ...], NoDecode] = ("us-east-1", "eu-west-1")
    """The regions with a cluster; in the environment separated by commas."""

    table: str = "gpufleet"
    bucket: str = "gpufleet"
    queue_prefix: str = "gpufleet"

    secrets_prefix: str | None = Field(default=None, min_length=1)
    """What the names of secrets in Secrets Manager begin with, before a slash; unless said, the table's name. It stays what it was where a
    table is restored under another name, since the secrets are where they were."""

    kubeconfig: Path | None = None
    """A kubeconfig with one context per region, named as the region. Without one, a worker looks into `eks_clusters`, and where its region
    isn't named there, uses its pod's service account."""

    eks_clusters: Annotated[tuple[str, ...], NoDecode] = ()
    """The EKS clusters of regions, `us-east-1=gpu-us`, separated by commas; or one name with `{region}` in it, for all others. Their
    addresses are asked of EKS, and tokens are signed with this process's AWS credentials: no file, no program."""

    kueue_queue: str | None = None
    """Where Kueue admits: the local queue that a released job is labelled with, instead of being unsuspended."""

    lease_seconds: float = Field(default=60.0, gt=0)
    """How long a claim lasts."""

    dispatch_slots: int = Field(default=64, ge=1, le=1000)
    """How many jobs one dispatcher applies at the same time."""

    sweep_seconds: float = Field(default=60.0, gt=0)
    """How often the sweeper looks at a region in which nothing is due, and the webhook worker at deliveries; earlier when a mark says
    so."""

    shutdown_seconds: float = Field(default=20.0, gt=0)
    """How long a worker that is asked to end finishes what it has begun."""

    ready_shards: int = Field(default=1, ge=1, le=64)
    due_shards: int = Field(default=1, ge=1, le=64)
    """Over how many partitions the entries of `ready` and `due` are written (`shared.store.keys.Layout`),"""
    ready_shards_read: int | None = Field(default=None, ge=1, le=64)
    due_shards_read: int | None = Field(default=None, ge=1, le=64)
    """and in how many they are looked for: as many unless said, never fewer. More, while others write to another number of them."""

    max_body_bytes: int = Field(default=6 * 1024 * 1024, ge=1024)
    """The largest request body; AWS Lambda takes 6 MB."""

    identity: Annotated[tuple[Literal["keys", "iam", "jwt"], ...], NoDecode] = ()
    """Where the API's callers are known from, separated by commas: `keys` (static bearer keys), `iam` and `jwt` (IAM's
    callers and tokens that API Gateway has checked, in front of Lambda). Without any the API listens on the loopback interface only, and
    everybody who reaches it is its administrator."""

    rate_limit: str | None = Field(default="100/second", pattern=r"^[1-9][0-9]{0,6}/(second|minute|hour)$")
    """How often one caller may ask one API process; `none` for as often as he likes. The local administrator isn't held to it."""

    policy_file: Path | None = None
    """A JSON file with the admission policy; without one its documented defaults hold."""

    webhook_allowed_domains: Annotated[tuple[str, ...], NoDecode] = ()
    """The only hosts that webhooks may have, exactly, separated by commas; without any, every public host may be one."""

    webhook_ports: Annotated[tuple[Annotated[int, Field(ge=1, le=65535)], ...], NoDecode] = (443, 8443)
    """The only ports that webhooks may have, separated by commas."""

    webhook_lease_seconds: float = Field(default=60.0, gt=0)
    """How long a worker may take with one delivery before another sends it too; an attempt takes 20 s at most."""

    webhook_stream_lease_seconds: float = Field(default=60.0, gt=0)
    """After so long another webhook worker reads on where one has died; a shorter time is more writes, up to three of them within it."""

    webhook_local: bool = False
    """Webhooks may use http, any port and this machine's loopback interface: for the embedded fleet and for tests."""

    webhook_disable_seconds: float = Field(default=86_400.0, gt=0)
    """After so long without a delivery that was taken, and ten attempts at least, a webhook is disabled."""

    spot_prices_file: Path | None = None
    """Where EC2 can't be asked (an emulator): a JSON file with spot prices, `{region: {instance type: USD an hour}}`."""

    metrics_seconds: float = Field(default=60.0, ge=5)
    """How often the GPUs of a region are read. CloudWatch keeps values by the minute: oftener costs requests and shows little more."""

    metrics_exporters: Annotated[tuple[str, ...], NoDecode] = (
        "app.kubernetes.io/name in (dcgm-exporter,metrics-exporter,device-metrics-exporter)",
        "app in (nvidia-dcgm-exporter,device-metrics-exporter,amdgpu-metrics-exporter)",
    )
    """Label selectors of the pods that tell of GPUs, separated by semicolons; one list of each a scrape."""

    metrics_direct: bool = False
    """Read exporters at their pods' addresses, where the worker runs in their network, instead of through the API server."""

    metrics_project_labels: Annotated[tuple[str, ...], NoDecode] = ("airm.silogen.ai/project-id", "project-id", "project")
    """The labels of a pod that say its project, separated by commas; the first that there is."""

    metrics_rollups: Annotated[tuple[Annotated[str, Field(pattern=_ROLLUP)], ...], NoDecode] = (
        "region",
        "region+node",
        "region+namespace",
        "region+project",
        "region+namespace+job_id",
    )
    """By which labels GPUs are taken together in CloudWatch, separated by commas; `region+node+device` is each by itself. Each group has a
    metric for each measure, and `gpufleet metrics plan` says what they cost. None: nothing is written there."""

    metrics_measures: Annotated[tuple[str, ...], NoDecode] = ()
    """The only measures that are written to CloudWatch (`shared.metrics.vocabulary`), separated by commas; all of them unless said."""

    prometheus_url: str | None = Field(default=None, pattern=r"^https?://[^\s/@]+(/[^\s]*)?$")
    """The address of a Prometheus that scrapes the metrics worker (`honor_labels: true`): it then answers questions about GPUs over time,
    and CloudWatch doesn't."""

    prometheus_token_file: Path | None = None
    """A file with the bearer token that it wants."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(default=9105, ge=0, le=65535)
    """Where the metrics worker serves `/metrics`; port 0 takes any free one. It knows no callers, so mind who reaches another host."""

    probe_host: str = "127.0.0.1"
    probe_port: int | None = Field(default=None, ge=0, le=65535)
    """Where every worker and the API answer probes (`workers.probing`), apart from what they serve; without a port nowhere. They tell
    how the loop is and the words of its last error, so mind who reaches another host."""

    usage_write_seconds: float = Field(default=600.0, ge=1, le=3600)
    """How often an observer writes its account of the hour that runs, an object each time; an hour that is over is written at once."""

    usage_all_pods: bool = False
    """Observers keep account of all pods, not of the fleet's only: one more watch of each cluster, and what is idle is told from others."""

    costs_interval_minutes: int = Field(default=60, ge=5, le=1440)
    """How long the windows of cost reports are. They begin at multiples of it since 1970, UTC."""

    costs_look_back_days: int = Field(default=7, ge=1, le=31)
    """How far back reports that were missed are made, and those of incomplete usage made again."""

    opencost_url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+(/[^\s]*)?$")
    """The address of OpenCost's API: what it says of each window is told beside what is reported. `{region}` in it is the region's name."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("rate_limit", mode="before")
    @classmethod
    def _unlimited(cls, value: object) -> object:
        return None if isinstance(value, str) and value.strip().lower() == "none" else value

    @field_validator("regions", "eks_clusters", "identity", "webhook_allowed_domains", "webhook_ports", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("metrics_exporters", "metrics_project_labels", "metrics_rollups", "metrics_measures", mode="before")
    @classmethod
    def _parts(cls, value: object, info: ValidationInfo) -> object:
        separator = ";" if info.field_name == "metrics_exporters" else ","
        return tuple(part.strip() for part in value.split(separator) if part.strip()) if isinstance(value, str) else value

    @field_validator("ready_shards_read", "due_shards_read")
    @classmethod
    def _all_that_are_written(cls, value: int | None, info: ValidationInfo) -> int | None:
        written = str(info.field_name).removesuffix("_read")
        if value is not None and value < (least := info.data.get(written, value)):
            raise ValueError(f"must be at least {least}, as many as are written (GPUFLEET_{written.upper()})")
        return value

    @field_validator("eks_clusters")
    @classmethod
    def _clusters(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            if _EKS_CLUSTER.fullmatch(entry) is None:
                raise ValueError(f"'{entry}' must be <region>=<name of a cluster>, or a name with {{region}} in it")
        if len({entry.partition("=")[0] if "=" in entry else "" for entry in value}) < len(value):
            raise ValueError("must name each region once, and hold one name with {region} at most")
        return value

    def eks_cluster(self, region: str) -> str | None:
        """The name of a region's EKS cluster; None where none is named."""
        named = dict(entry.split("=", 1) for entry in self.eks_clusters if "=" in entry)
        pattern = next((entry for entry in self.eks_clusters if "=" not in entry), None)
        return named.get(region) or (pattern.replace("{region}", region) if pattern is not None else None)

    @property
    def lease(self) -> timedelta:
        """How long a claim lasts."""
        return timedelta(seconds=self.lease_seconds)

    @property
    def webhook_lease(self) -> timedelta:
        """How long a delivery stays with the worker that has taken it on."""
        return timedelta(seconds=self.webhook_lease_seconds)

    @property
    def webhook_stream_lease(self) -> timedelta:
        """How long a shard of the table's stream stays with the webhook worker that reads it."""
        return timedelta(seconds=self.webhook_stream_lease_seconds)

    @property
    def secrets(self) -> str:
        """What the names of secrets begin with."""
        return self.secrets_prefix or self.table

    @property
    def submissions_queue(self) -> str:
        """Name of the queue that producers drop jobs on."""
        return f"{self.queue_prefix}-submissions"

    @property
    def events_queue(self) -> str:
        """Name of the queue of events of jobs that somebody subscribes to."""
        return f"{self.queue_prefix}-events"

    @property
    def tasks_queue(self) -> str:
        """Name of the queue of scheduled work of the costs: windows to report on."""
        return f"{self.queue_prefix}-tasks"

    @property
    def scrapes_queue(self) -> str:
        """Name of the queue of scheduled scrapes. Its own: of two consumers of one queue each would take what is the other's."""
        return f"{self.queue_prefix}-scrapes"

    def dispatch_queue(self, region: str) -> str:
        """Name of the queue of a region's doorbells."""
        return f"{self.queue_prefix}-dispatch-{region}"

    def queues(self) -> tuple[str, ...]:
        """Names of all queues that have a dead-letter queue beside them."""
        common = (self.submissions_queue, self.events_queue, self.tasks_queue, self.scrapes_queue)
        return (*common, *(self.dispatch_queue(region) for region in self.regions))


def dead_letter_queue(queue: str) -> str:
    """Name of the dead-letter queue of a queue."""
    return f"{queue}-dead"


def load(kind: type[T]) -> T:
    """Settings of a kind, from the environment. Raises InvalidError that names every one that can't be used."""
    try:
        return kind()
    except ValidationError as error:
        raise InvalidError(setting_problems(error, prefix=kind.model_config.get("env_prefix", ""))) from error


def setting_problems(error: ValidationError, *, prefix: str = "GPUFLEET_") -> list[Problem]:
    """What pydantic says of settings, by the names that they have in the environment."""
    return [Problem(pointer=f"{prefix}{str(one['loc'][0]).upper()}", value=str(one["input"]), rule=rule_of(one)) for one in error.errors()]
