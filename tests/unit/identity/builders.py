"""Callers' keys for tests."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.identity.callers import Right
from shared.identity.keys import ApiKey, new_key

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def api_key(name="ci", *, rights=("read",), namespaces=None, **more):
    """A key as it is kept, and its text."""
    key_id, text, digest = new_key()
    fields = {"created_at": NOW, "created_by": "tests", "digest": digest} | more
    kept = ApiKey(id=key_id, name=name, rights=frozenset(map(Right, rights)), namespaces=namespaces and frozenset(namespaces), **fields)
    return kept, text
