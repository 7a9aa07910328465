"""The records of a template: what it is called and which version it has, and the versions, which never change."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from shared.jobs.model import Record
from shared.templates.placeholders import PLACEHOLDER


class TemplateHead(Record):
    """A template without its content.

    `version` counts on for ever: a template that is made again after its deletion goes on where the deleted one ended, so that
    `name@version` means one content and no other.
    """

    name: str
    version: int
    description: str | None = None
    """Of the newest version."""
    created_at: AwareDatetime
    created_by: str
    updated_at: AwareDatetime
    """When the newest version was written."""
    updated_by: str
    namespace: str | None = None
    """That of the newest version's content."""
    deleted_at: AwareDatetime | None = None
    """Set on what is left of a deleted template: its versions, for the jobs that name them."""


class Content(Record):
    """What a version of a template consists of; `parameters` are defaults, by the names of placeholders."""

    manifest: dict[str, Any]
    parameters: dict[str, Any] = Field(default_factory=dict)
    description: str | None = None

    @property
    def namespace(self) -> str | None:
        """The namespace that the manifest names as a plain text, to which the template belongs; None belongs to all of them."""
        metadata = self.manifest.get("metadata")
        found = metadata.get("namespace") if isinstance(metadata, dict) else None
        return found if isinstance(found, str) and found and PLACEHOLDER.search(found) is None else None


class Template(Record):
    """One version of a template. Of an older one, `updated_at`, `updated_by` and `namespace` are those of its writing."""

    head: TemplateHead
    content: Content

    @property
    def reference(self) -> str:
        """What jobs that are made of it name: `name@version`."""
        return f"{self.head.name}@{self.head.version}"
