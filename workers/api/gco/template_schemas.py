"""Bodies of the templates group."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, Field

from shared.jobs.fields import DEFAULT_NAMESPACE, JsonObject, Strict
from shared.templates.model import Content, Template, TemplateHead
from workers.api import examples
from workers.api.errors import ErrorBody
from workers.api.gco.schemas import Env

MAX_DESCRIPTION = 4096
MAX_PARAMETERS = 1000
_PLACEHOLDERS = (
    "An object of a kind that may be applied. A string that is exactly `{{ name }}` becomes the value of that parameter, with its type; "
    "within a longer string, or a key, scalars are written as JSON writes them. `{{ name }}` itself is the name of what is made."
)


class TemplateContent(Strict):
    """What a version of a template consists of."""

    description: str | None = Field(default=None, max_length=MAX_DESCRIPTION)
    manifest: JsonObject = Field(description=_PLACEHOLDERS)
    parameters: JsonObject | None = Field(
        default=None, max_length=MAX_PARAMETERS, description="Defaults; a placeholder without one is a required parameter."
    )

    def content(self) -> Content:
        """The content to be stored."""
        return Content(manifest=self.manifest, parameters=self.parameters or {}, description=self.description)


class JobTemplateRequest(TemplateContent):
    """A new template."""

    model_config = examples.shown(examples.TEMPLATE)

    name: str = Field(min_length=1, max_length=63, description="By the grammar of a label's value.")


class JobTemplateUpdate(TemplateContent):
    """The next version of a template."""

    model_config = examples.shown(examples.NEXT_VERSION)


class JobFromTemplateRequest(Strict):
    """What is made of a template."""

    model_config = examples.shown(examples.FROM_TEMPLATE)

    name: str = Field(min_length=1, max_length=63, description="The name of the Job.")
    namespace: str | None = Field(
        default=None,
        description=f"Where; if the template names a namespace, that one or none. Without any it is {DEFAULT_NAMESPACE}.",
    )
    parameters: JsonObject | None = Field(
        default=None, max_length=MAX_PARAMETERS, description="Values of placeholders; they go over the template's defaults."
    )


class TemplateSummary(BaseModel):
    """A template in a list. `version`, `created_by`, `updated_by` and `namespace` are additions."""

    name: str
    description: str | None
    created_at: datetime
    updated_at: datetime
    version: int
    created_by: str
    updated_by: str
    namespace: str | None = Field(description="Which its manifest names as a plain text, and whose callers alone see it; null: all do.")

    @classmethod
    def of(cls, head: TemplateHead) -> Self:
        """A head as it is listed."""
        return cls(**head.model_dump(include=set(TemplateSummary.model_fields)))


class TemplateRecord(TemplateSummary):
    """One version of a template in full. `deleted_at` is set where the template is deleted, and only its old versions can be read."""

    manifest: dict[str, Any]
    parameters: dict[str, Any]
    deleted_at: datetime | None = None

    @classmethod
    def read(cls, template: Template) -> Self:
        """A template as it is shown."""
        head, content = template.head, template.content
        return cls(**head.model_dump(), manifest=content.manifest, parameters=content.parameters)


class TemplateListAnswer(BaseModel):
    """One page of templates, newest first. The list goes on while `next_cursor` is not null."""

    timestamp: datetime
    count: int
    templates: list[TemplateSummary]
    next_cursor: str | None


class TemplateAnswer(BaseModel):
    """One template."""

    timestamp: datetime
    template: TemplateRecord


class TemplateMessageAnswer(BaseModel):
    """One template, and what was done."""

    timestamp: datetime
    message: str
    template: TemplateRecord


class JobFromTemplateAnswer(Env):
    """What was made of a template. `template_version`, `kind` and `uid` are additions."""

    template: str
    template_version: int
    kind: str
    job_name: str
    namespace: str
    uid: str | None
    success: bool
    parameters_applied: dict[str, Any] = Field(description="Every value that went into the manifest, defaults included.")
    errors: list[str] | None


class JobFromTemplateFailure(JobFromTemplateAnswer, ErrorBody):
    """What came of a template and failed, as `success` says. `detail` and `request_id`, which every error has, are additions."""
