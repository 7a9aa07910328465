"""From the text of a manifest file to submissions: each Job, with the objects beside it that are its own.

A file with one Job gives one submission with everything else in the file. With several Jobs, an object goes with the one Job that it stands
with: the Job that it follows, or the first where it stands before that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from shared.clusters.manifests import MAX_TEXT_BYTES, load_documents
from shared.errors import InvalidError, TooLargeError
from workers.cli.failures import CommandError, ExitCode, Fault

_CONTENTS: Final[dict[str, Literal["json", "yaml"]]] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
"""What a file's name says of its text; where it says nothing, the text is looked at."""


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
    shown = "standard input" if source == "-" else source
    try:
        documents = load_documents(text, content=_CONTENTS.get(Path(source).suffix.lower(), "auto"))
    except InvalidError as invalid:
        faults = [Fault.of(problem, source=shown) for problem in invalid.problems]
        raise CommandError(f"{shown}: not a manifest that can be read", code=ExitCode.USAGE, faults=faults) from invalid
    except TooLargeError as error:
        raise CommandError.at(shown, None, f"must be at most {MAX_TEXT_BYTES // 2**20} MiB ({MAX_TEXT_BYTES} bytes)") from error
    return bundled(documents, source=shown)


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
