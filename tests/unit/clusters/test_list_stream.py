"""A list that comes in pieces is read as the whole of it would be, and what is no whole list is told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clusters.api import KubernetesApi
from shared.clusters.list_stream import ListReader, read_page
from shared.errors import UnavailableError
from tests.unit.clusters.scripted import ScriptedAnswer, ScriptedTransport, document

ITEMS = [{"metadata": {"name": f"jöb-{number}", "labels": {"]": "[{", '"': "\\"}}, "items": [number, 1.5, None]} for number in range(5)]
METADATA = {"resourceVersion": "7", "continue": "next", "remainingItemCount": 3}
LIST = {"kind": "JobList", "apiVersion": "batch/v1", "metadata": METADATA, "items": ITEMS}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def read(body, *, piece):
    """The items and the metadata of a body that comes in pieces of a size."""
    items = []
    reader = ListReader(items.append)
    for start in range(0, len(body), piece):
        reader.feed(body[start : start + piece])
    reader.end()
    return items, reader.metadata


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 10_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_pieces_of_any_size(piece, indent):
    for ensure_ascii in (True, False):
        body = json.dumps(LIST, indent=indent, ensure_ascii=ensure_ascii).encode()
        assert read(body, piece=piece) == (ITEMS, METADATA)


def test_metadata_after_the_items_and_fields_that_nobody_knows():
    body = json.dumps({"more": 12, "items": ITEMS, "again": {"items": [1]}, "metadata": METADATA, "last": -1.5e3}).encode()
    assert read(body, piece=5) == (ITEMS, METADATA)


@pytest.mark.parametrize("items", [[], None])
def test_an_empty_list(items):
    assert read(json.dumps({"metadata": {}, "items": items}).encode(), piece=3) == ([], {})


@given(
    items=st.lists(st.dictionaries(st.text(), values), max_size=5), metadata=st.dictionaries(st.text(), values), piece=st.integers(1, 50)
)
def test_any_list_is_read_as_the_whole_would_be(items, metadata, piece):
    body = json.dumps({"metadata": metadata, "items": items}, ensure_ascii=False).encode(errors="replace")
    whole = json.loads(body)
    assert read(body, piece=piece) == (whole["items"], whole["metadata"])


def test_a_list_that_breaks_off_anywhere_is_none():
    body = json.dumps(LIST).encode()
    for cut in range(len(body)):
        with pytest.raises(ValueError, match="breaks off"):
            read(body[:cut], piece=100)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"<html>",
        b"{}",
        b'{"metadata": null, "items": []}',
        b'{"metadata": {}, "items": [1, 2]}',
        b'{"metadata": {}, "items": [{]}',
        b'{"metadata": {}, "items": []} more',
        b'{"metadata" 1}',
        b'{"metadata": {}, "items": [{"a": "\xff"}]}',
        b'{"metadata": {}, "items": [' + b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("piece", [1_000_000, 4096, 1])
def test_what_is_no_list_of_objects(body, piece):
    with pytest.raises(ValueError, match=r".+"):
        read(body, piece=piece)


def test_a_long_object_is_not_read_over_and_over():
    items = [{"value": "x" * 3_000_000}]
    assert read(json.dumps({"metadata": {}, "items": items}).encode(), piece=1000) == (items, {})


async def test_an_answer_that_breaks_off_is_unavailable():
    body = json.dumps(LIST).encode()
    taken = []
    for answer in (ScriptedAnswer(body[:-40]), ScriptedAnswer(body[:-40], error=OSError("reset"))):
        with pytest.raises(UnavailableError):
            await read_page(KubernetesApi(ScriptedTransport(answer)), "/jobs", {}, taken.append)
        assert answer.closed
    assert taken[0] == ITEMS[0]


async def test_a_page_asks_what_it_is_told_to_ask():
    transport = ScriptedTransport(document(LIST))
    taken = []

    assert await read_page(KubernetesApi(transport), "/jobs", {"limit": "5"}, taken.append) == METADATA
    assert (taken, transport.queries) == (ITEMS, [{"limit": "5"}])
