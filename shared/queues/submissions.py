"""The message that producers drop on the submissions queue, and its JSON Schema (docs/submission.schema.json, served by the API).

Either the job itself, up to the 1 MiB that SQS takes, or a pointer to an object in S3 that holds the same JSON.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from shared.errors import InvalidError, Problem
from shared.jobs.fields import JobFields, Strict
from shared.rules import problems_of

MAX_OBJECT_BYTES = 6 * 1024 * 1024
"""The largest object that an S3 pointer may point to."""
SCOPE = "sqs"
"""Idempotency keys of the queue are apart from those of the API."""
MAX_REFERENCE = 256

Reference = Annotated[str | None, Field(max_length=MAX_REFERENCE, description="The producer's own name for it, told in a rejection.")]


class SubmissionMessage(JobFields):
    """A job as a message. Without an idempotency key, the id of the SQS message is one, so that a redelivery makes no second job."""

    idempotency_key: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._~:/+=-]{1,128}$",
        description="The same key with the same content gives the same job, for 30 days; with other content it is refused.",
    )
    reference: str | None = Field(
        default=None, max_length=MAX_REFERENCE, description="The producer's own name for it, told in a rejection."
    )


class S3Location(Strict):
    """Where an object stands."""

    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="A bucket that the fleet may read.")
    key: str = Field(min_length=1, max_length=1024)


class S3Pointer(Strict):
    """A message that points to the job: an object of at most 6 MiB with the JSON of a job message."""

    s3: S3Location
    reference: str | None = Field(
        default=None, max_length=MAX_REFERENCE, description="The producer's own name for it, told in a rejection."
    )


def message_of(document: Any) -> SubmissionMessage | S3Pointer:
    """The message in a JSON value. Raises InvalidError with every wrong field."""
    if isinstance(document, dict) and "s3" in document:
        return _validated(S3Pointer, document)
    return _validated(SubmissionMessage, document)


def job_message_of(document: Any) -> SubmissionMessage:
    """The job message in a JSON value, where a pointer can't be any more. Raises InvalidError."""
    return _validated(SubmissionMessage, document)


M = TypeVar("M", bound=Strict)


def _validated(kind: type[M], document: Any) -> M:
    if not isinstance(document, dict):
        raise InvalidError([Problem(pointer="", value=None, rule="must be an object")])
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise InvalidError(problems_of(error)) from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a message."""
    adapter: TypeAdapter[SubmissionMessage | S3Pointer] = TypeAdapter(SubmissionMessage | S3Pointer)
    schema = adapter.json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpufleet submission",
        "description": "A message on the submissions queue: a job, or a pointer to one in S3.",
    } | schema
