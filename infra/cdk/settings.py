"""What an installation on AWS decides, read from one file (`infra/cdk/settings.toml`, or the one that `GPUFLEET_INFRA_SETTINGS` names).

Nothing here names an account: the account is that of the credentials with which the stacks are deployed.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from infra.cdk.fields import (
    Address,
    Architecture,
    Audience,
    BucketName,
    ChartVersion,
    Image,
    InstanceType,
    Issuer,
    KubernetesVersion,
    Name,
    Namespace,
    PoolName,
    PrivateNetwork,
    PublicNetwork,
    RegionName,
    Repository,
    RoleArn,
    StreamArn,
    TopicArn,
    Variable,
    architecture,
    has_nvidia,
    of_others,
)
from infra.cdk.parts import Part, names_of, read, whole
from infra.cdk.problems import twice
from infra.cdk.variables import PREFIX, check_variables
from shared.errors import InvalidError, Problem
from shared.settings import Settings
from shared.store.lifecycle import SHORTEST_USAGE_DAYS, USAGE_DAYS

FILE_VARIABLE: Final = "GPUFLEET_INFRA_SETTINGS"
DEFAULT_FILE: Final = Path(__file__).with_name("settings.toml")
_LEASES: Final = 3
"""After so many a claim is told of: the sweeper has then had two to give the job to another worker."""

Days = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653]
"""What CloudWatch Logs takes for a retention: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""


class Pool(Part):
    """Machines for jobs, started when a job wants one and stopped when none does.

    All types of a pool have the same shape, `gpus`, `cpus` and `memory_gib` (autoscaling looks at the first, and quotas are made of them),
    and processors of one architecture.
    """

    name: PoolName
    instance_types: tuple[InstanceType, ...] = Field(min_length=1)
    capacity: Literal["on-demand", "spot"] = "on-demand"
    max_nodes: int = Field(ge=1, le=450)
    gpus: int = Field(ge=0, le=16)
    cpus: int = Field(ge=1, le=448)
    memory_gib: int = Field(ge=1, le=24_576)
    disk_gib: int = Field(default=200, ge=20, le=16_384)

    @whole
    def _of_one_architecture(self) -> Iterator[Problem]:
        first = architecture(self.instance_types[0])
        rule = f"must be {first} as {self.instance_types[0]} is: all nodes of a pool start from one image of a disk"
        return of_others(self.instance_types, first, rule)

    @whole
    def _of_nvidia(self) -> Iterator[Problem]:
        rule = "must be of a family with NVIDIA's GPUs, since `gpus` is not 0: nodes get no driver and no device plugin of others"
        for number, one in enumerate(self.instance_types):
            if self.gpus and not has_nvidia(one):
                yield Problem(pointer=f"/instance_types/{number}", value=one, rule=rule)


class SystemNodes(Part):
    """The machines of what always runs: the workers, Kueue, the autoscaler, DNS. The workers' image is made for their `architecture`."""

    instance_types: tuple[InstanceType, ...] = Field(default=("t4g.medium",), min_length=1)
    architecture: Architecture = "arm64"
    min_nodes: int = Field(default=2, ge=1, le=10)
    max_nodes: int = Field(default=3, ge=1, le=20)

    @whole
    def _in_order(self) -> Iterator[Problem]:
        if self.max_nodes < self.min_nodes:
            yield Problem(pointer="/max_nodes", value=self.max_nodes, rule=f"must not be less than min_nodes, {self.min_nodes}")

    @whole
    def _of_the_architecture(self) -> Iterator[Problem]:
        rule = f"must be of the architecture that is set, {self.architecture}; types whose family has a g after its number are arm64"
        return of_others(self.instance_types, self.architecture, rule)


class Region(Part):
    """A region with a cluster.

    `network` is the region's own and joined to no other, so that regions may have the same; take different ones where you mean to join
    them (peering, a transit gateway). It can't be changed later without a new cluster.
    `api_server_cidrs` may reach the API server from outside of the network; whoever does needs credentials of IAM and an access entry.
    The Lambda functions do, from addresses that nobody knows before.
    """

    name: RegionName
    pools: tuple[Pool, ...] = Field(min_length=1)
    system: SystemNodes = SystemNodes()
    network: PrivateNetwork = "10.0.0.0/16"
    zones: int = Field(default=2, ge=2, le=3)
    nat_gateways: int = Field(default=1, ge=1, le=3)
    api_server_cidrs: tuple[PublicNetwork, ...] = Field(default=("0.0.0.0/0",), min_length=1, max_length=40)

    @whole
    def _pools_apart(self) -> Iterator[Problem]:
        names = names_of(self.pools)
        for number, name in enumerate(names):
            if name == "system":
                rule = "must not be system, as the nodes of what always runs are called"
                yield Problem(pointer=f"/pools/{number}/name", value=name, rule=rule)
        yield from twice("/pools", names, "/name")

    @whole
    def _gateways_have_zones(self) -> Iterator[Problem]:
        if self.nat_gateways > self.zones:
            yield Problem(pointer="/nat_gateways", value=self.nat_gateways, rule=f"must not be more than zones, {self.zones}")


class ExistingTable(Part):
    """A table that is there already, such as one restored to a point in time, which is always a new one; it has the shape of ours.

    A stack can't look up the ARN of a stream, so that says which table it is. One that is `imported` is in the control stack, and nothing
    there refers to it as a resource: all else is as it was without, which an import asks for
    (https://docs.aws.amazon.com/cdk/v2/guide/ref-cli-cmd-import.html).
    """

    stream_arn: StreamArn
    imported: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.stream_arn.split("/")[1]


class Jwt(Part):
    """Whose tokens the API takes: an OpenID Connect issuer, written as in the tokens, and the audiences of which one must be named."""

    issuer: Issuer
    audience: tuple[Audience, ...] = Field(min_length=1)


class Api(Part):
    """The HTTP API: requests a second over all callers, how many may come at once, and tokens, where there are any."""

    rate: int = Field(default=200, ge=1, le=10_000)
    burst: int = Field(default=400, ge=1, le=5_000)
    jwt: Jwt | None = None


class Alarms(Part):
    """When somebody is told, and who: an address that confirms its subscription, a topic of one's own, or nobody but the dashboards.

    The topic of `topic_arn` is in the control region, where the alarms are. The stacks don't change it: its own policy must let
    `cloudwatch.amazonaws.com` do `sns:Publish`, and where it is encrypted, its key (a customer's, since that of AWS can't be changed) must
    let the same do `kms:Decrypt` and `kms:GenerateDataKey*`. Without that alarms ring, and nobody hears them.
    """

    email: Address | None = None
    topic_arn: TopicArn | None = None
    oldest_ready_seconds: int = Field(default=1800, ge=60)
    overdue_seconds: int = Field(default=300, ge=120)
    claim_seconds: int | None = Field(default=None, ge=60)
    """Unless said, three leases (`GPUFLEET_LEASE_SECONDS`), and a minute at least."""
    observed_seconds: int = Field(default=1500, ge=900)
    """An observer tells of a cluster at which nothing changes every ten minutes."""
    scrape_seconds: int = Field(default=600, ge=300)
    exporter_failures_percent: float = Field(default=25.0, ge=0, lt=100)
    """Of a region's exporters of GPUs, those that no scrape of twenty minutes could read; nothing is known of them without rollups."""
    delivery_overdue_seconds: int = Field(default=900, ge=120)
    submissions_seconds: int = Field(default=600, ge=120)
    dead_letters: int = Field(default=1, ge=1)
    api_errors_percent: float = Field(default=5.0, gt=0, le=100)
    api_p99_milliseconds: int = Field(default=5000, ge=100)
    throttles: int = Field(default=10, ge=1)

    @whole
    def _one_listener(self) -> Iterator[Problem]:
        if self.email is not None and self.topic_arn is not None:
            rule = "must not be set together with topic_arn: subscribe the address to the topic"
            yield Problem(pointer="/email", value=self.email, rule=rule)


class Metrics(Part):
    """What is told of GPUs, and where questions about them are answered: see `metrics_rollups`, `metrics_measures`, `prometheus_url` in
    `shared.settings`, whose defaults hold for what isn't set. Each group of devices costs a metric for each measure."""

    rollups: tuple[str, ...] | None = None
    measures: tuple[str, ...] | None = None
    prometheus_url: str | None = None

    def environment(self) -> dict[str, str]:
        """The variables of the workers."""
        return {name: value for name, (value, _) in self.placed().items()}

    def placed(self) -> dict[str, tuple[str, str]]:
        """The same, each with its place in the settings."""
        listed = {"rollups": self.rollups, "measures": self.measures}
        found = {f"GPUFLEET_METRICS_{name.upper()}": (",".join(one), f"/metrics/{name}") for name, one in listed.items() if one is not None}
        url = self.prometheus_url
        return found | ({"GPUFLEET_PROMETHEUS_URL": (url, "/metrics/prometheus_url")} if url is not None else {})


class Workers(Part):
    """The workers in the clusters. `image` names an image that is there already; without one, deploying builds it from the Dockerfile."""

    image: Image | None = None
    dispatchers: int = Field(default=2, ge=1, le=20)


class Chart(Part):
    """A Helm chart of one version. `repository` is an address (https, or oci, which names the chart itself)."""

    repository: Repository
    version: ChartVersion
    chart: str | None = None

    @whole
    def _named(self) -> Iterator[Problem]:
        if self.repository.startswith("https:") and not self.chart:
            yield Problem(pointer="/chart", value=self.chart, rule="must name the chart of a repository that isn't oci")


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
    bucket: BucketName | None = None
    """The bucket's name, which is one of all accounts; unless said, the installation's with the account and the control region."""
    table: ExistingTable | None = None
    """The table, where it is not one that the stacks have made under the installation's name."""
    removal: Literal["retain", "destroy"] = "retain"
    """What becomes of table, bucket, queues and key when their stack is deleted, and whether the table may be deleted at all."""
    kubernetes_version: KubernetesVersion = "1.36"
    administrators: tuple[RoleArn, ...] = ()
    """IAM roles and users who administer the clusters."""
    job_namespaces: tuple[Namespace, ...] = Field(default=("gco-jobs",), min_length=1)
    """The namespaces that the policy allows; each is made on every cluster, with the rights of the workers in it."""
    log_retention_days: Days = 30
    usage_days: int = Field(default=USAGE_DAYS, ge=SHORTEST_USAGE_DAYS)
    """How long accounts of usage stay in the bucket; reports are made of them (`shared.store.lifecycle`)."""
    job_log_days: int | None = Field(default=None, ge=1)
    """How long logs of ended executions stay in the bucket; for ever unless said."""
    environment: Mapping[Variable, str] = Field(default_factory=dict)
    api: Api = Api()
    alarms: Alarms = Alarms()
    metrics: Metrics = Metrics()
    workers: Workers = Workers()
    charts: Charts = Charts()

    @whole
    def _regions_apart(self) -> Iterator[Problem]:
        return twice("/regions", names_of(self.regions), "/name")

    @whole
    def _namespaces_apart(self) -> Iterator[Problem]:
        return twice("/job_namespaces", self.job_namespaces)

    @whole
    def _variables_of_workers(self) -> Iterator[Problem]:
        return check_variables(self.environment, self.metrics.placed())

    @whole
    def _within_a_lease(self) -> Iterator[Problem]:
        if any(one.pointer.endswith("GPUFLEET_LEASE_SECONDS") for one in self._variables_of_workers()):
            return
        told, lease = self.alarms.claim_seconds, self.lease_seconds
        if told is not None and told < lease:
            rule = f"must not be less than a claim may last, {lease:g} (GPUFLEET_LEASE_SECONDS): it would ring of claims that are well"
            yield Problem(pointer="/alarms/claim_seconds", value=told, rule=rule)

    @whole
    def _topic_elsewhere(self) -> Iterator[Problem]:
        arn = self.alarms.topic_arn
        if arn is not None and arn.split(":")[3] != self.control_region:
            rule = f"must be a topic of the control region, {self.control_region}: CloudWatch tells those of an alarm's own region only"
            yield Problem(pointer="/alarms/topic_arn", value=arn, rule=rule)

    @whole
    def _table_elsewhere(self) -> Iterator[Problem]:
        arn = self.table.stream_arn if self.table is not None else None
        if arn is not None and arn.split(":")[3] != self.control_region:
            rule = f"must be of a table in the control region, {self.control_region}: queues and functions are there"
            yield Problem(pointer="/table/stream_arn", value=arn, rule=rule)

    @property
    def variables(self) -> dict[str, str]:
        """What workers have in their environment besides the names of resources."""
        return {**self.metrics.environment(), **self.environment}

    @property
    def lease_seconds(self) -> float:
        """How long a claim lasts, for the workers of this installation."""
        return self._seconds("lease_seconds")

    @property
    def shutdown_seconds(self) -> float:
        """How long its workers finish what they have begun."""
        return self._seconds("shutdown_seconds")

    def _seconds(self, field: str) -> float:
        return float(self.variables.get(f"{PREFIX}{field.upper()}", Settings.model_fields[field].default))

    @property
    def claim_alarm_seconds(self) -> int:
        """From when on a claim that isn't committed is told of."""
        return self.alarms.claim_seconds or max(60, math.ceil(_LEASES * self.lease_seconds))

    @property
    def region_names(self) -> tuple[str, ...]:
        """The regions with a cluster."""
        return tuple(region.name for region in self.regions)

    def settings(self, *, bucket: str) -> Settings:
        """The settings that the workers of this installation have, of what names its resources."""
        return Settings(
            control_region=self.control_region,
            regions=self.region_names,
            table=self.name if self.table is None else self.table.name,
            bucket=bucket,
            queue_prefix=self.name,
            secrets_prefix=self.name,
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
        """The installation of a document. Raises InvalidError with every fault."""
        return read(cls, document)
