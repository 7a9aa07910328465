"""What a producer may say about a job, whichever way it comes in: the fields that the API and the queue have in common.

Types are strict, since JSON has types: `true` is no number, `"5"` neither. Unknown fields are refused, so that a misspelt one is never
silently without effect.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator

from shared.jobs.model import RetryPolicy, Timeouts
from shared.jobs.submission import MAX_PRIORITY, JobRequest

DEFAULT_NAMESPACE = "gco-jobs"
MAX_LABEL_BYTES = 2048
"""Keys and values together. Labels stand in the head, which is to stay below 4 KB."""


def _exact(value: object) -> object:
    """A JSON number as the decimal that was written; anything else is left to be refused."""
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


Price = Annotated[Decimal, BeforeValidator(_exact), Field(gt=0), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
"""USD an hour, as a JSON number."""


class Strict(BaseModel):
    """A body without unknown fields and without conversions."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RetryOptions(RetryPolicy):
    """How often an execution is tried, and how long between. Interruptions are counted apart from attempts."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TimeoutOptions(Timeouts):
    """Limits in seconds; null means no limit.

    `queue_seconds` from submission to the start on a cluster, `execution_seconds` of one execution from its first running pod,
    `total_seconds` from submission to the end.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class JobFields(Strict):
    """A job as its producer describes it."""

    manifest: dict[str, Any] = Field(description="A batch/v1 Job. The fleet makes its name on the cluster from metadata.name.")
    target_region: str = Field(description="A region of the fleet, or `any`: one with free GPUs, then the one with the shortest queue.")
    namespace: str = Field(default=DEFAULT_NAMESPACE, description="The namespace of all objects of the job.")
    priority: int = Field(default=0, ge=0, le=MAX_PRIORITY, description="100 goes first.")
    labels: dict[str, str] | None = Field(default=None, description="Labels for the job's objects, by the grammar of Kubernetes.")
    supporting: list[dict[str, Any]] = Field(
        default_factory=list,
        max_length=32,
        description="Objects that live and die with the job, such as a headless Service.",
    )
    retry: RetryOptions | None = None
    timeouts: TimeoutOptions | None = None
    max_spot_price: Price | None = Field(default=None, description="USD an hour. The job waits until spot capacity costs no more.")
    spot_instance_type: str | None = Field(default=None, description="The EC2 instance type that max_spot_price is about.")

    @field_validator("labels")
    @classmethod
    def _small(cls, labels: dict[str, str] | None) -> dict[str, str] | None:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in (labels or {}).items())
        if size > MAX_LABEL_BYTES:
            raise ValueError(f"labels must have at most {MAX_LABEL_BYTES} bytes of keys and values, and have {size}")
        return labels

    def request(self, *, scope: str, idempotency_key: str | None, submitted_by: str | None = None) -> JobRequest:
        """The request that these fields stand for, from one way in."""
        return JobRequest(
            manifest=self.manifest,
            region=self.target_region,
            namespace=self.namespace,
            priority=self.priority,
            labels=self.labels or {},
            supporting=self.supporting,
            retry=RetryPolicy(**self.retry.model_dump()) if self.retry else RetryPolicy(),
            timeouts=Timeouts(**self.timeouts.model_dump()) if self.timeouts else Timeouts(),
            max_spot_price=self.max_spot_price,
            spot_instance_type=self.spot_instance_type,
            submitted_by=submitted_by,
            idempotency_key=idempotency_key,
            idempotency_scope=scope,
        )
