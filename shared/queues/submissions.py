"""The message that producers drop on the submissions queue, and its JSON Schema (docs/submission.schema.json, served by the API).

Either the job itself, up to the 1 MiB that SQS takes, or a pointer to an object in S3 that holds the same JSON.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from shared.jobs.fields import JobFields, Strict

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

    bucket: str = Field(min_length=3, max_length=63)
    key: str = Field(min_length=1, max_length=1024)


class S3Pointer(Strict):
    """A message that points to the job: an object of at most 6 MiB with the JSON of a job message."""

    s3: S3Location
    reference: str | None = Field(
        default=None, max_length=MAX_REFERENCE, description="The producer's own name for it, told in a rejection."
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a message."""
    adapter: TypeAdapter[SubmissionMessage | S3Pointer] = TypeAdapter(SubmissionMessage | S3Pointer)
    schema = adapter.json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpufleet submission",
        "description": "A message on the submissions queue: a job, or a pointer to one in S3.",
    } | schema
