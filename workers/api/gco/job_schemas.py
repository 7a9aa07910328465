"""Bodies of the GCO door's lists and deletions of Jobs. Names in camel case are Kubernetes' own."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from shared.clusters.job_status import ComputedStatus
from shared.clusters.selectors import LONGEST, parse_selector
from shared.errors import InvalidError
from shared.jobs.fields import Strict
from workers.api.gco.schemas import Env


def _parsed(text: str) -> str:
    try:
        parse_selector(text)
    except InvalidError as invalid:
        raise PydanticCustomError("label_selector", "{rule}", {"rule": invalid.problems[0].rule}) from None
    return text


LabelSelector = Annotated[str, Field(max_length=LONGEST, description="Kubernetes' whole grammar, sets too."), AfterValidator(_parsed)]
"""A selector that Kubernetes would take; a blank one selects everything."""
Sort = Annotated[
    str, Field(pattern=r"^(createdAt|name|status)(:(asc|desc))?$", description="A field, and `:asc` or `:desc`; without, ascending.")
]


class JobStatus(StrEnum):
    """A filter's word for how a Job stands; `completed` and `succeeded` mean the same."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def computed(self) -> ComputedStatus:
        """The one word."""
        return ComputedStatus.SUCCEEDED if self is JobStatus.COMPLETED else ComputedStatus(self.value)


class Kubernetes(BaseModel):
    """A part of an object whose fields are called as in Kubernetes."""

    model_config = ConfigDict(alias_generator=to_camel, serialize_by_alias=True)


class ListedMetadata(Kubernetes):
    """What a list tells of a Job's metadata."""

    name: str
    namespace: str
    creation_timestamp: datetime | None
    labels: dict[str, str]
    uid: str


class ListedSpec(Kubernetes):
    """What a list tells of a Job's specification."""

    parallelism: int | None
    completions: int | None
    backoff_limit: int | None


class ListedCondition(Kubernetes):
    """A condition of a Job."""

    type: str
    status: str
    reason: str | None
    message: str | None


class JobCounts(Kubernetes):
    """How many pods of a Job there are in which state, and when it began and ended."""

    active: int
    succeeded: int
    failed: int
    start_time: datetime | None
    completion_time: datetime | None


class ListedStatus(JobCounts):
    """What a list tells of a Job's status."""

    conditions: list[ListedCondition]


class ListedJob(BaseModel):
    """A Job of the cluster in a list."""

    metadata: ListedMetadata
    spec: ListedSpec
    status: ListedStatus
    computed_status: ComputedStatus = Field(description="In one word, as the filter has it. An addition.")
    job_id: str | None = Field(description="The job of the queue that it is of, if it is of one. An addition.")


class JobsAnswer(Env):
    """One page of Jobs. `total` is exact."""

    total: int
    limit: int
    offset: int
    has_more: bool
    count: int
    jobs: list[ListedJob]


class BulkDeleteRequest(Strict):
    """Which Jobs to delete: those that fulfil every condition that is given. At least one must be, or `all`."""

    namespace: str | None = None
    status: Annotated[JobStatus | None, Field(strict=False)] = None
    older_than_days: int | None = Field(default=None, ge=1, le=365, description="By the time at which the Job was made.")
    label_selector: LabelSelector | None = None
    dry_run: bool = Field(default=False, description="Only say which Jobs would be deleted.")
    all: bool = Field(default=False, description="Every Job, running ones too, of the namespace or of all the caller's. An addition.")

    @model_validator(mode="after")
    def _says_which(self) -> BulkDeleteRequest:
        """Nobody deletes everything by leaving something out."""
        narrowed = self.status is not None or self.older_than_days is not None or bool((self.label_selector or "").strip())
        if self.all and narrowed:
            raise PydanticCustomError("contradiction", "must have either conditions or 'all': true, which is for all Jobs")
        if not (self.all or narrowed or self.namespace is not None):
            rule = "must have a condition (namespace, status, older_than_days, label_selector); to delete all Jobs, say 'all': true"
            raise PydanticCustomError("missing_condition", rule)
        return self


class JobName(BaseModel):
    """A Job."""

    name: str
    namespace: str


class FailedDeletion(JobName):
    """A Job that was not deleted, or of which that isn't known."""

    error: str


class SkippedDeletion(JobName):
    """A Job that there was nothing to do about: it is gone already, or fulfils the conditions no longer."""

    reason: str


class BulkDeleteAnswer(Env):
    """What was deleted; in a dry run, what would be. All that match are deleted, failed, skipped or remaining."""

    dry_run: bool
    total_matched: int
    deleted_count: int
    failed_count: int
    skipped_count: int = Field(description="An addition.")
    jobs: list[JobName] = Field(description="Those that this request has deleted; in a dry run, those that it would.")
    failed: list[FailedDeletion] | None
    skipped: list[SkippedDeletion] | None = Field(description="An addition.")
    remaining: int = Field(description="How many more fulfil the conditions than one request deletes: ask again. An addition.")


class JobDeletedAnswer(Env):
    """A Job is deleted."""

    job_name: str
    namespace: str
    uid: str | None = Field(description="The UID that was deleted, where the request says which it expects.")
    status: Literal["deleted"]
    message: str
