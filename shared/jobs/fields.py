"""What a producer may say about a job, whichever way it comes in: the fields that the API and the queue have in common.

Types are strict, since JSON has types: `true` is no number, `"5"` neither. Unknown fields are refused, so that a misspelt one is never
silently without effect.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, field_validator, model_validator
from pydantic_core import PydanticCustomError

from shared.errors import MAX_PROBLEMS, cut
from shared.jobs.model import RetryPolicy, Timeouts
from shared.jobs.submission import ANY_REGION, MAX_PRIORITY, JobRequest

DEFAULT_NAMESPACE = "gco-jobs"
MAX_SUPPORTING = 32
"""Supporting objects of one job."""
MAX_LABEL_BYTES = 2048
"""Keys and values together. Labels stand in the head, which is to stay below 4 KB."""


def _decimal(value: object) -> Decimal | None:
    """A JSON number as the decimal that was written; None for anything else."""
    if isinstance(value, Decimal):
        return value
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _exact(value: object) -> Decimal:
    exact = _decimal(value)
    if exact is None:
        raise PydanticCustomError("decimal_type", "must be a number")
    return exact


def _object(value: object) -> dict[Any, Any] | BaseModel:
    """Anything but an object is refused in the words of JSON, where pydantic would speak of dictionaries and instances."""
    if not isinstance(value, dict | BaseModel):
        raise PydanticCustomError("dict_type", "must be an object")
    return value


def _array(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("list_type", "must be an array")
    return value


class _Fields(BaseModel):
    """What is read from an object. One with so many unknown fields that nobody wants to be told of each is refused as a whole."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: object) -> object:
        found = _object(value)
        if isinstance(found, dict) and len(found) > MAX_PROBLEMS:
            known = {field.alias or name for name, field in cls.model_fields.items()}
            unknown = [key for key in found if key not in known]
            if len(unknown) > MAX_PROBLEMS:
                rule = "must have no fields but {known}, and has {count} others, such as '{first}'"
                told = {"known": ", ".join(sorted(known)), "count": len(unknown), "first": cut(str(unknown[0]))}
                raise PydanticCustomError("extra_forbidden", rule, told)
        return found


def _few(labels: object) -> object:
    """Labels that can't be short enough are refused before each is looked at."""
    found = _object(labels)
    if isinstance(found, dict) and len(found) > MAX_LABEL_BYTES:
        raise PydanticCustomError("too_long", "must have at most {limit} bytes of keys and values", {"limit": MAX_LABEL_BYTES})
    return found


JsonObject = Annotated[dict[str, Any], BeforeValidator(_object)]

Price = Annotated[Decimal, BeforeValidator(_exact), Field(gt=0), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
"""USD an hour, as a JSON number."""


class Strict(_Fields):
    """A body without unknown fields and without conversions."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RetryOptions(_Fields, RetryPolicy):
    """How often an execution is tried, and how long between. Interruptions are counted apart from attempts."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TimeoutOptions(_Fields, Timeouts):
    """Limits in seconds; null means no limit.

    `queue_seconds` from submission to the start on a cluster, `execution_seconds` of one execution from its first running pod,
    `total_seconds` from submission to the end.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class JobFields(Strict):
    """A job as its producer describes it."""

    manifest: JsonObject = Field(description="A batch/v1 Job. The fleet makes its name on the cluster from metadata.name.")
    target_region: str = Field(description="A region of the fleet, or `any`: one with free GPUs, then the one with the shortest queue.")
    namespace: str = Field(default=DEFAULT_NAMESPACE, description="The namespace of all objects of the job.")
    priority: int = Field(default=0, ge=0, le=MAX_PRIORITY, description="100 goes first.")
    labels: Annotated[dict[str, str], BeforeValidator(_few)] | None = Field(
        default=None, description="Labels for the job's objects, by the grammar of Kubernetes."
    )
    supporting: Annotated[list[JsonObject], BeforeValidator(_array)] = Field(
        default_factory=list,
        max_length=MAX_SUPPORTING,
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
            raise PydanticCustomError(
                "too_long", "must have at most {limit} bytes of keys and values, and has {size}", {"limit": MAX_LABEL_BYTES, "size": size}
            )
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


def envelope(document: dict[str, Any], *, idempotency_key: str | None = None) -> JobRequest:
    """What stands around the manifest in a body of which some fields are wrong: one that can't be read has a value that no rule refuses.

    So the rules of the others can be asked, and all problems told at once. Nothing is ever made of such a request.
    """
    given = document.get("idempotency_key", idempotency_key)
    return JobRequest(
        manifest={},
        region=_text(document.get("target_region")) or ANY_REGION,
        namespace=DEFAULT_NAMESPACE,
        idempotency_key=given if isinstance(given, str) else None,
        retry=_read(RetryOptions, document.get("retry")) or RetryPolicy(),
        timeouts=_read(TimeoutOptions, document.get("timeouts")) or Timeouts(),
        max_spot_price=_decimal(document.get("max_spot_price")),
        spot_instance_type=_text(document.get("spot_instance_type")),
    )


M = TypeVar("M", bound=BaseModel)


def _read(kind: type[M], value: object) -> M | None:
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
