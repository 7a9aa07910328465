"""Manifests as users write them, JSON or YAML, into the objects that they mean: strictly, quickly and in bounded memory.

Every way in loads through here, so that a file that kubectl would read reads the same, and what kubectl would guess at is refused with
the place and the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from shared.clusters.json_documents import json_documents
from shared.clusters.trees import canonical, check_tree, step
from shared.errors import InvalidError, Problem, TooLargeError

__all__ = ["MAX_DOCUMENTS", "MAX_TEXT_BYTES", "canonical", "check_tree", "expanded", "load_documents", "load_parts"]

MAX_DOCUMENTS: Final = 10_000
MAX_TEXT_BYTES: Final = 4 * 1024 * 1024
"""Twice the largest specification, since YAML spends bytes on indentation."""

_BOM: Final = "\ufeff"


def load_documents(
    text: str | bytes, *, content: Literal["json", "yaml", "auto"] = "auto", max_bytes: int = MAX_TEXT_BYTES
) -> list[dict[str, Any]]:
    """Return the objects of a text, in order, with empty documents left out and Lists expanded: `load_parts` without the places."""
    return [found for _, found in load_parts(text, content=content, max_bytes=max_bytes)]


def load_parts(
    text: str | bytes, *, content: Literal["json", "yaml", "auto"] = "auto", max_bytes: int = MAX_TEXT_BYTES
) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects of a text, in order, each with its pointer, which begins with the document's number, from 0.

    Empty documents are left out, and Lists expanded.

    `auto` takes a text that begins with a brace or a bracket for JSON, as kubectl does, and anything else for YAML.

    Raises:
        InvalidError: all faults of the first document that has any. Pointers begin with the document's number, from 0.
        TooLargeError: the text is larger than `max_bytes`.
    """
    read = _decoded(text, max_bytes).removeprefix(_BOM)
    if content == "json" or (content == "auto" and read.lstrip()[:1] in ("{", "[")):
        documents = json_documents(read, limit=MAX_DOCUMENTS)
    else:
        # Here and not above: most callers have JSON and need no YAML parser.
        from shared.clusters.yaml_documents import yaml_documents

        documents = yaml_documents(read, limit=MAX_DOCUMENTS)
    objects: list[tuple[str, dict[str, Any]]] = []
    for number, document in enumerate(documents):
        if document is None:
            continue
        check_tree(document, pointer=step(number))
        for pointer, found in expanded(document, step(number)):
            if not isinstance(found, dict):
                raise InvalidError([Problem(pointer=pointer, value=found, rule="must be an object: each document is one manifest")])
            if len(objects) == MAX_DOCUMENTS:
                raise InvalidError([Problem(pointer=pointer, value=None, rule=f"must hold at most {MAX_DOCUMENTS} documents")])
            objects.append((pointer, found))
    return objects


def expanded(document: object, pointer: str) -> Iterator[tuple[str, Any]]:
    """Yield what a document means, with the pointers of the places: itself, or the items of a List (and of Lists in it)."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list):
        # The depth of what was read is bounded, so this recursion is too.
        for index, item in enumerate(document["items"]):
            yield from expanded(item, f"{pointer}/items/{index}")
    else:
        yield pointer, document


def _decoded(text: str | bytes, max_bytes: int) -> str:
    if isinstance(text, bytes):
        if len(text) > max_bytes:
            raise TooLargeError("the text of the manifests", len(text), max_bytes)
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            rule = f"must be UTF-8: the byte 0x{text[error.start]:02x} at line {line} isn't"
            raise InvalidError([Problem(pointer="", value=text[error.start : error.start + 4], rule=rule)]) from None
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise InvalidError([Problem(pointer="", value=None, rule=f"must not contain a lone surrogate (line {line})")]) from None
    if size > max_bytes:
        raise TooLargeError("the text of the manifests", size, max_bytes)
    return text
