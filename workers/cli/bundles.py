"""From the text of a manifest file to submissions: each Job, with the objects beside it that are its own.

A file with one Job gives one submission with everything else in the file. With several Jobs, an object goes with the one Job that it stands
with: the Job that it follows, or the first where it stands before that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workers.cli.failures import CommandError
from workers.cli.files import load_objects, source_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """One submission: a Job and what stands beside it. `source` names the file it came from."""

    source: str
    manifest: dict[str, Any]
    supporting: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What its author calls the Job."""
        metadata = self.manifest.get("metadata")
        found = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
        return str(found or "(unnamed)")


def load_bundles(text: bytes, *, source: str) -> list[Bundle]:
    """The submissions of a text. Raises CommandError that names the place of every fault."""
    documents = [document for _, document in load_objects(text, source=source)]
    return bundled(documents, source=source_of(source))


def bundled(documents: list[dict[str, Any]], *, source: str) -> list[Bundle]:
    """Put each Job together with its own. Raises CommandError where there is no Job."""
    before: list[dict[str, Any]] = []
    bundles: list[Bundle] = []
    for document in documents:
        if document.get("kind") == "Job":
            bundles.append(Bundle(source=source, manifest=document))
        elif bundles:
            bundles[-1].supporting.append(document)
        else:
            before.append(document)
    if not bundles:
        kinds = ", ".join(str(document.get("kind") or "no kind") for document in documents) or "(empty)"
        raise CommandError.at(source, kinds, "must hold a Job (batch/v1), with what supports it")
    bundles[0].supporting[:0] = before
    return bundles
