"""Bodies of the GCO door's manifests and of a Job's retry, as its clients know them; what is added to the original says so."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from shared.clusters.applying import Applied, Done, Outcome
from shared.jobs.fields import JsonObject, Strict
from workers.api import examples
from workers.api.errors import ErrorBody
from workers.api.gco.applying import MAX_MANIFESTS
from workers.api.gco.schemas import Env


def _array(value: object) -> object:
    if not isinstance(value, list):
        raise PydanticCustomError("list_type", "must be an array")
    return value


def _always(value: object) -> object:
    if value is not True:
        raise PydanticCustomError("literal_error", "must be true or left out: manifests are always validated")
    return value


class ManifestsRequest(Strict):
    """Manifests of the kinds that the policy allows; a List stands for its items."""

    model_config = examples.shown(examples.MANIFESTS)

    manifests: Annotated[list[JsonObject], BeforeValidator(_array)] = Field(min_length=1, max_length=MAX_MANIFESTS)
    namespace: str | None = Field(default=None, description="For manifests that say none; one that says another is refused.")
    dry_run: bool = Field(default=False, description="Only ask the cluster what it would do.")
    validated: Annotated[bool, BeforeValidator(_always)] = Field(default=True, alias="validate", description="Always true.")


class ManifestResult(BaseModel):
    """One object, and what was done with it. `uid` is an addition."""

    api_version: str
    kind: str
    name: str
    namespace: str
    status: Done = Field(description="created, updated, unchanged, failed, or (an addition) skipped: not tried, since another one failed")
    message: str
    uid: str | None

    @classmethod
    def of(cls, one: Applied) -> ManifestResult:
        """From the cluster service's words."""
        return cls(
            api_version=one.api_version,
            kind=one.kind,
            name=one.name,
            namespace=one.namespace,
            status=one.status,
            message=one.message,
            uid=one.uid,
        )


class ManifestSummary(BaseModel):
    """How many objects have each status. `skipped` is an addition."""

    created: int
    updated: int
    unchanged: int
    failed: int
    skipped: int

    @classmethod
    def of(cls, outcome: Outcome) -> ManifestSummary:
        """Counted."""
        return cls(**{status.value: outcome.count(status) for status in Done})


class ManifestsAnswer(Env):
    """What was done with each object, in the order of the request."""

    success: bool
    summary: ManifestSummary
    resources: list[ManifestResult]
    errors: list[str]


class ManifestsFailure(ManifestsAnswer, ErrorBody):
    """The same where something failed, as `success` says. `detail` and `request_id`, which every error has, are additions."""


class ManifestProblem(BaseModel):
    """One rule that a manifest breaks."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the body.")
    value: Any = Field(description="What was found there; objects, arrays and long texts are left out.")
    rule: str


class ManifestVerdict(BaseModel):
    """Whether a manifest may be applied. The items of a List have one each, with the List's index. `problems` is an addition."""

    manifest_index: int
    valid: bool
    api_version: str | None
    kind: str | None
    name: str | None
    namespace: str | None
    error: str | None
    problems: list[ManifestProblem]


class ValidationAnswer(Env):
    """Whether all manifests may be applied, and each of them."""

    valid: bool
    total_manifests: int
    valid_manifests: int
    invalid_manifests: int
    results: list[ManifestVerdict]


class Resource(BaseModel):
    """An object as it stands on the cluster. `metadata` comes without managedFields. `data` (of a ConfigMap) is an addition."""

    api_version: str
    kind: str
    name: str
    namespace: str
    exists: Literal[True]
    status: dict[str, Any]
    metadata: dict[str, Any]
    spec: dict[str, Any]
    data: dict[str, Any] | None


class ResourceAnswer(Env):
    """One object."""

    resource: Resource


class DeletedResource(BaseModel):
    """An object that was deleted."""

    api_version: str
    kind: str
    name: str
    namespace: str
    status: Literal["deleted"]
    message: str


class ResourceDeletedAnswer(Env):
    """What was deleted."""

    success: Literal[True]
    resource: DeletedResource


class RetryAnswer(Env):
    """A Job made anew. `job_id` is an addition, for a job of the queue."""

    original_job: str
    new_job: str
    namespace: str
    success: bool
    message: str
    errors: list[str]
    job_id: str | None


class RetryFailure(RetryAnswer, ErrorBody):
    """A Job that isn't made anew, as `success` says. `detail` and `request_id`, which every error has, are additions."""
