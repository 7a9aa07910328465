"""What an installation on AWS decides, read from one file (`infra/cdk/settings.toml`, or the one that `GPUFLEET_INFRA_SETTINGS` names).

Nothing here names an account: the account is that of the credentials with which the stacks are deployed.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from infra.cdk.problems import problems_of
from shared.errors import InvalidError, Problem
from shared.settings import Settings
from shared.store.lifecycle import SHORTEST_USAGE_DAYS, USAGE_DAYS

FILE_VARIABLE: Final = "GPUFLEET_INFRA_SETTINGS"
DEFAULT_FILE: Final = Path(__file__).with_name("settings.toml")

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
"""A prefix of physical names: the longest of them, a role with a region, must stay within IAM's 64 characters."""
RegionName = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
InstanceType = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$")]
Cidr = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$")]
RoleArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[\w+=,.@/-]+$")]
Days = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653]
"""What CloudWatch Logs takes for a retention: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""


class Part(BaseModel):
    """A part of the settings: frozen, and without fields that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Pool(Part):
    """Machines for jobs, started when a job wants one and stopped when none does.

    All types of a pool have the same shape, `gpus`, `cpus` and `memory_gib` (autoscaling looks at the first, and quotas are made of them).
    """

    name: Name
    instance_types: tuple[InstanceType, ...] = Field(min_length=1)
    capacity: Literal["on-demand", "spot"] = "on-demand"
    max_nodes: int = Field(ge=1, le=450)
    gpus: int = Field(ge=0, le=16)
    cpus: int = Field(ge=1, le=448)
    memory_gib: int = Field(ge=1, le=24_576)
    disk_gib: int = Field(default=200, ge=20, le=16_384)


class SystemNodes(Part):
    """The machines of what always runs: the workers, Kueue, the autoscaler, DNS."""

    instance_types: tuple[InstanceType, ...] = Field(default=("t4g.medium",), min_length=1)
    architecture: Literal["arm64", "x86_64"] = "arm64"
    min_nodes: int = Field(default=2, ge=1, le=10)
    max_nodes: int = Field(default=3, ge=1, le=20)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_nodes < self.min_nodes:
            raise ValueError("max_nodes must not be less than min_nodes")
        return self


class Region(Part):
    """A region with a cluster.

    `api_server_cidrs` may reach the API server from outside of the network; whoever does needs credentials of IAM and an access entry.
    The Lambda functions do, from addresses that nobody knows before.
    """

    name: RegionName
    pools: tuple[Pool, ...] = Field(min_length=1)
    system: SystemNodes = SystemNodes()
    network: Cidr = "10.0.0.0/16"
    zones: int = Field(default=2, ge=2, le=3)
    nat_gateways: int = Field(default=1, ge=1, le=3)
    api_server_cidrs: tuple[Cidr, ...] = Field(default=("0.0.0.0/0",), min_length=1)

    @model_validator(mode="after")
    def _pools_apart(self) -> Self:
        _apart("pools", ["system", *(pool.name for pool in self.pools)])
        return self


class Jwt(Part):
    """Whose tokens the API takes: an OpenID Connect issuer and the audiences of which a token must name one."""

    issuer: Annotated[str, StringConstraints(pattern=r"^https://[^\s/]+(/[^\s]*)?$")]
    audience: tuple[str, ...] = Field(min_length=1)


class Api(Part):
    """The HTTP API: requests a second over all callers, how many may come at once, and tokens, where there are any."""

    rate: int = Field(default=200, ge=1, le=10_000)
    burst: int = Field(default=400, ge=1, le=5_000)
    jwt: Jwt | None = None


class Alarms(Part):
    """When somebody is told, and who: an address that confirms its subscription, a topic of one's own, or nobody but the dashboards."""

    email: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] | None = None
    topic_arn: Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[\w-]+$")] | None = None
    oldest_ready_seconds: int = Field(default=1800, ge=60)
    overdue_seconds: int = Field(default=300, ge=120)
    claim_seconds: int = Field(default=180, ge=60)
    observed_seconds: int = Field(default=1500, ge=900)
    """An observer tells of a cluster at which nothing changes every ten minutes."""
    scrape_seconds: int = Field(default=600, ge=300)
    delivery_overdue_seconds: int = Field(default=900, ge=120)
    submissions_seconds: int = Field(default=600, ge=120)
    dead_letters: int = Field(default=1, ge=1)
    api_errors_percent: float = Field(default=5.0, gt=0, le=100)
    api_p99_milliseconds: int = Field(default=5000, ge=100)
    throttles: int = Field(default=10, ge=1)

    @model_validator(mode="after")
    def _one_listener(self) -> Self:
        if self.email is not None and self.topic_arn is not None:
            raise ValueError("email and topic_arn must not both be set: subscribe the address to the topic")
        return self


class Metrics(Part):
    """What is told of GPUs, and where questions about them are answered: see `metrics_rollups`, `metrics_measures`, `prometheus_url` in
    `shared.settings`, whose defaults hold for what isn't set. Each group of devices costs a metric for each measure."""

    rollups: tuple[str, ...] | None = None
    measures: tuple[str, ...] | None = None
    prometheus_url: str | None = None

    def environment(self) -> dict[str, str]:
        """The variables of the workers."""
        listed = {"GPUFLEET_METRICS_ROLLUPS": self.rollups, "GPUFLEET_METRICS_MEASURES": self.measures}
        found = {name: ",".join(value) for name, value in listed.items() if value is not None}
        return found | ({"GPUFLEET_PROMETHEUS_URL": self.prometheus_url} if self.prometheus_url else {})


class Workers(Part):
    """The workers in the clusters. `image` names an image that is there already; without one, deploying builds it from the Dockerfile."""

    image: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][^\s@]*(:[\w][\w.-]{0,127}|@sha256:[0-9a-f]{64})$")] | None = None
    dispatchers: int = Field(default=2, ge=1, le=20)


class Chart(Part):
    """A Helm chart of one version. `repository` is an address (https, or oci, which names the chart itself)."""

    repository: Annotated[str, StringConstraints(pattern=r"^(https|oci)://[^\s]+$")]
    version: Annotated[str, StringConstraints(pattern=r"^v?[0-9]+\.[0-9]+\.[0-9]+([-+][\w.-]+)?$")]
    chart: str | None = None

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.repository.startswith("https:") and not self.chart:
            raise ValueError("chart must name the chart of a repository that isn't oci")
        return self


class Charts(Part):
    """What runs on a cluster beside the fleet; each may be left out where something else does its work."""

    kueue: Chart | None = None
    device_plugin: Chart | None = None
    dcgm_exporter: Chart | None = None
    autoscaler: Chart | None = None


class Installation(Part):
    """An installation. `name` begins all physical names; what else the workers take from their environment is `environment`."""

    name: Name = "gpufleet"
    control_region: RegionName
    regions: tuple[Region, ...] = Field(min_length=1)
    bucket: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")] | None = None
    """The bucket's name, which is one of all accounts; unless said, the installation's with the account and the control region."""
    removal: Literal["retain", "destroy"] = "retain"
    """What becomes of table, bucket, queues and key when their stack is deleted, and whether the table may be deleted at all."""
    kubernetes_version: Annotated[str, StringConstraints(pattern=r"^1\.[0-9]{2}$")] = "1.36"
    administrators: tuple[RoleArn, ...] = ()
    """IAM roles and users who administer the clusters."""
    job_namespaces: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")], ...] = ("gco-jobs",)
    """The namespaces that the policy allows; each is made on every cluster, with the rights of the workers in it."""
    log_retention_days: Days = 30
    usage_days: int = Field(default=USAGE_DAYS, ge=SHORTEST_USAGE_DAYS)
    """How long accounts of usage stay in the bucket; reports are made of them (`shared.store.lifecycle`)."""
    environment: Mapping[Annotated[str, StringConstraints(pattern=r"^GPUFLEET_[A-Z0-9_]+$")], str] = Field(default_factory=dict)
    api: Api = Api()
    alarms: Alarms = Alarms()
    metrics: Metrics = Metrics()
    workers: Workers = Workers()
    charts: Charts = Charts()

    @model_validator(mode="after")
    def _regions_apart(self) -> Self:
        _apart("regions", [region.name for region in self.regions])
        _apart("job_namespaces", list(self.job_namespaces))
        taken = sorted({_PREFIX + name for name in _DECIDED} & set(self.environment))
        if taken:
            raise ValueError(f"environment must not hold {', '.join(taken)}: the stacks decide that")
        _check_variables(self.variables)
        return self

    @property
    def variables(self) -> dict[str, str]:
        """What workers have in their environment besides the names of resources."""
        return {**self.metrics.environment(), **self.environment}

    @property
    def region_names(self) -> tuple[str, ...]:
        """The regions with a cluster."""
        return tuple(region.name for region in self.regions)

    def settings(self, *, bucket: str) -> Settings:
        """The settings that the workers of this installation have, of what names its resources."""
        return Settings(
            control_region=self.control_region,
            regions=self.region_names,
            table=self.name,
            bucket=bucket,
            queue_prefix=self.name,
        )

    @classmethod
    def load(cls, path: Path | None = None) -> Installation:
        """The installation that a TOML file describes. Raises InvalidError with every fault, each with its place."""
        path = path or Path(os.environ.get(FILE_VARIABLE) or DEFAULT_FILE)
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidError([Problem(pointer="", value=str(path), rule=f"must be a file that can be read: {error.strerror}")]) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidError([Problem(pointer="", value=str(path), rule=f"must be TOML: {error}")]) from error
        return cls.of(document)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Installation:
        """The installation of a document. Raises InvalidError."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise InvalidError(problems_of(error)) from error


_PREFIX: Final = "GPUFLEET_"
_DECIDED: Final = (
    "CONTROL_REGION",
    "REGIONS",
    "TABLE",
    "BUCKET",
    "QUEUE_PREFIX",
    "IDENTITY",
    "KUEUE_QUEUE",
    "CLUSTER_REGION",
    "EKS_CLUSTERS",
)


def _check_variables(variables: Mapping[str, str]) -> None:
    """Raise ValueError for a variable that no worker reads, or whose value it would refuse when it starts."""
    fields = {name.removeprefix(_PREFIX).lower(): value for name, value in variables.items()}
    unknown = sorted(_PREFIX + name.upper() for name in set(fields) - set(Settings.model_fields))
    if unknown:
        raise ValueError(f"environment must hold settings of shared/settings.py, and {', '.join(unknown)} is none")
    try:
        Settings(**fields)  # type: ignore[arg-type]
    except ValidationError as error:
        faults = "; ".join(f"{_PREFIX}{str(one['loc'][0]).upper()}: {one['msg']}" for one in error.errors(include_url=False))
        raise ValueError(f"environment must hold values that workers take: {faults}") from error


def _apart(field: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{field} must have different names, and {', '.join(twice)} comes more than once")
