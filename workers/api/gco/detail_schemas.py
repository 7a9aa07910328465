"""Bodies of the GCO door's views of one Job: the Job itself, its events, pods and metrics. Names in camel case are Kubernetes' own."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from shared.clusters.job_status import ComputedStatus
from workers.api.gco.job_schemas import JobCounts, Kubernetes, ListedCondition, ListedMetadata, ListedSpec
from workers.api.gco.schemas import Env


class ContainerImage(Kubernetes):
    """A container, without what may be secret of it: its environment and arguments."""

    name: str
    image: str


class DetailedMetadata(ListedMetadata):
    """Metadata of a Job."""

    annotations: dict[str, str]


class DetailedPodTemplate(Kubernetes):
    """What a Job's pods are made of."""

    containers: list[ContainerImage]
    init_containers: list[ContainerImage]


class DetailedTemplate(Kubernetes):
    """The template of a Job."""

    spec: DetailedPodTemplate


class DetailedSpec(ListedSpec):
    """The specification of a Job."""

    suspend: bool = Field(description="Whether it waits to be let run: by the fleet, by Kueue or by its user. An addition.")
    template: DetailedTemplate


class DetailedCondition(ListedCondition):
    """A condition of a Job."""

    last_transition_time: datetime | None


class DetailedStatus(JobCounts):
    """The status of a Job."""

    conditions: list[DetailedCondition]


class PodPhase(BaseModel):
    """A pod on a node."""

    name: str
    phase: str


class NodeBlock(BaseModel):
    """A node. What isn't known of it is null; `scheduling.node_lookup_error` says why."""

    name: str
    instance_type: str | None
    capacity_type: str | None = Field(description="spot, on-demand or reserved, whoever started the node")
    labels: dict[str, str] = Field(description="Those that say what machine it is and where it stands")


class NodeWithPods(NodeBlock):
    """A node and the Job's pods on it."""

    pods: list[PodPhase]


class UnscheduledPod(BaseModel):
    """A pod without a node, and why in the scheduler's words; null where it hasn't looked at the pod yet."""

    name: str
    reason: str | None


class SchedulingBlock(BaseModel):
    """Where a Job's pods are. The `node_` fields are those of the node of the oldest pod that has one."""

    node_name: str | None
    node_instance_type: str | None
    node_capacity_type: str | None
    node_labels: dict[str, str]
    nodes: list[NodeWithPods]
    unscheduled_pods: int
    unscheduled: list[UnscheduledPod] = Field(description="An addition")
    node_lookup_error: str | None


class JobDetailAnswer(Env):
    """A Job. `job_id` and `execution` are there for one of the fleet's queue; additions."""

    metadata: DetailedMetadata
    spec: DetailedSpec
    status: DetailedStatus
    computed_status: ComputedStatus
    scheduling: SchedulingBlock
    job_id: str | None
    execution: int | None


class EventSource(Kubernetes):
    """Who reports an event."""

    component: str | None
    host: str | None


class EventObject(Kubernetes):
    """What an event is about."""

    kind: str
    name: str
    namespace: str


class JobEvent(Kubernetes):
    """An event of the cluster."""

    type: str
    reason: str
    message: str
    count: int
    first_timestamp: datetime | None
    last_timestamp: datetime | None
    source: EventSource
    involved_object: EventObject


class JobEventsAnswer(Env):
    """Events of a Job and of its pods, the newest first. `truncated` and `hint` are additions."""

    job_name: str
    namespace: str
    count: int
    events: list[JobEvent]
    truncated: bool
    hint: str | None = Field(description="What is missing and where it is to be found; null where nothing is.")


class ContainerStatus(Kubernetes):
    """A container of a pod. `startedAt` is there once it has started, `reason` unless it runs, `exitCode` when it has ended."""

    name: str
    ready: bool
    restart_count: int
    image: str
    state: Literal["running", "waiting", "terminated"] | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None


class PodSpec(Kubernetes):
    """The specification of a pod."""

    node_name: str | None
    containers: list[ContainerImage]
    init_containers: list[ContainerImage]


class PodStatus(Kubernetes):
    """The status of a pod."""

    phase: str
    host_ip: str | None = Field(alias="hostIP")
    pod_ip: str | None = Field(alias="podIP")
    start_time: datetime | None
    reason: str | None = Field(description="Why the pod as a whole failed, such as Evicted. An addition.")
    message: str | None = Field(description="An addition")
    container_statuses: list[ContainerStatus]
    init_container_statuses: list[ContainerStatus]


class JobPod(BaseModel):
    """A pod of a Job and its node, null while it has none."""

    metadata: ListedMetadata
    spec: PodSpec
    status: PodStatus
    node: NodeBlock | None


class JobPodsAnswer(Env):
    """The pods of a Job, the oldest first."""

    job_name: str
    namespace: str
    count: int
    pods: list[JobPod]
    scheduling: SchedulingBlock


class MetricsSummary(BaseModel):
    """What all pods of a Job use together. `pod_count` counts those without a sample, too."""

    total_cpu_millicores: int
    total_memory_bytes: int
    total_memory_mib: float
    pod_count: int


class ContainerMetrics(BaseModel):
    """What a container uses."""

    name: str
    cpu_millicores: int
    memory_bytes: int
    memory_mib: float


class PodMetrics(BaseModel):
    """What a pod's containers use."""

    pod_name: str
    containers: list[ContainerMetrics]


class PodWithoutMetrics(BaseModel):
    """A pod of which there is no sample, and why."""

    pod_name: str
    error: str


class JobMetricsAnswer(Env):
    """What a Job's pods use. `available` and `message` are additions: without a metrics server the sums are zero."""

    job_name: str
    namespace: str
    available: bool
    message: str | None
    summary: MetricsSummary
    pods: list[PodMetrics | PodWithoutMetrics]
