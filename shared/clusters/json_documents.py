"""JSON text into trees, refusing what `json.loads` lets pass: keys that come twice, NaN, endless nesting."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from shared.clusters.trees import MAX_DEPTH, MAX_VALUES, RepeatedKeys
from shared.errors import InvalidError, Problem

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_STRING_OR_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|,', re.DOTALL)


def json_documents(text: str, *, limit: int) -> list[object]:
    """Return the documents of a text of one or more JSON values, with objects of repeated keys marked for `check_tree`.

    NaN and infinities are left in as numbers, since `check_tree` can tell where they stand.

    Raises:
        InvalidError: a syntax error, with line and column; more than `limit` documents; nesting beyond any sense; more values than
            `check_tree` takes of all the documents together.
    """
    _check_count(text, limit=limit * MAX_VALUES)
    documents: list[object] = []
    position = _after_blanks(text, 0)
    while position < len(text):
        if len(documents) == limit:
            raise InvalidError([Problem(pointer="", value=None, rule=f"must hold at most {limit} documents")])
        document, position = _read(text, position)
        documents.append(document)
        position = _after_blanks(text, position)
    return documents


def _check_count(text: str, *, limit: int) -> None:
    """Refuse what has too many values before it is read, which would hold up every other thread; there is a comma between two of them."""
    if text.count(",") <= limit:
        return
    commas = 0
    for found in _STRING_OR_COMMA.finditer(text):
        commas += found[0] == ","
        if commas > limit:
            raise InvalidError([Problem(pointer="", value=None, rule=f"must hold at most {limit} values")])


def _read(text: str, position: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        rule = f"must be JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidError([Problem(pointer="", value=_around(text, error.pos), rule=rule)]) from None
    except RecursionError:
        raise InvalidError([Problem(pointer="", value=None, rule=f"must be nested at most {MAX_DEPTH} levels deep")]) from None
    except ValueError:  # Python refuses to read an integer of more than 4,300 digits
        raise InvalidError([Problem(pointer="", value=None, rule="must hold no integer of more than 64 bits")]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    keys = [key for key, _ in pairs]
    marked = RepeatedKeys(found)
    seen: set[str] = set()
    # `add` gives None, which is false: the first time of a key passes by, and is noted.
    marked.repeated = tuple(dict.fromkeys(key for key in keys if key in seen or seen.add(key)))  # type: ignore[func-returns-value] # as said
    return marked


def _after_blanks(text: str, position: int) -> int:
    matched = _BLANK.match(text, position)
    return matched.end() if matched else position


def _around(text: str, position: int) -> str:
    return text[max(0, position - 20) : position + 20]


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object)
