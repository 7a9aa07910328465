"""Manifests are loaded as kubectl would, and what kubectl would guess at is refused with its place."""

import contextlib
import json
import math
import re
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shared.clusters.manifests import MAX_DOCUMENTS, canonical, check_tree, load_documents
from shared.clusters.yaml_documents import resolve
from shared.errors import InvalidError, TooLargeError

CONTENTS: tuple[Literal["json"], Literal["yaml"]] = ("json", "yaml")


def refusal(text: str | bytes, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidError) as refused:
        load_documents(text, **options)
    return [(problem.pointer, problem.rule) for problem in refused.value.problems]


def test_empty_documents_between_separators_are_left_out() -> None:
    assert load_documents("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n---\n") == [{"a": 1}, {"b": 2}]


def test_windows_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    text = "a: |\n  x\n  y\n---\nb: 2\n"
    assert load_documents(text.replace("\n", "\r\n")) == load_documents(text)
    assert load_documents(b"\xef\xbb\xbf" + text.encode()) == load_documents(text)
    assert load_documents('\ufeff{"a": 1}') == [{"a": 1}]


def test_a_list_of_two_jobs_is_expanded() -> None:
    jobs = [{"kind": "Job", "metadata": {"name": "a"}}, {"kind": "Job", "metadata": {"name": "b"}}]
    wrapped = {"apiVersion": "v1", "kind": "List", "items": jobs}
    assert load_documents(json.dumps(wrapped)) == jobs
    assert load_documents(yaml.safe_dump(wrapped)) == jobs
    assert load_documents(json.dumps({"kind": "JobList", "items": [wrapped, *jobs]})) == jobs + jobs


def test_items_of_a_list_must_be_objects() -> None:
    assert refusal('{"kind": "List", "items": [{}, 1]}') == [("/0/items/1", "must be an object: each document is one manifest")]


def test_several_json_texts_in_a_row_are_several_documents() -> None:
    assert load_documents('{"a": 1}\n{"b": 2} ') == [{"a": 1}, {"b": 2}]
    assert load_documents("") == []
    assert load_documents(" \n", content="json") == []


@pytest.mark.parametrize("content", ["json", "yaml"])
def test_repeated_keys_are_refused_with_their_place(content: str) -> None:
    text = '{"a": {"b/c": 1, "d": 2, "b/c": 3}}'
    found = refusal(text, content=content)
    assert [pointer for pointer, _ in found] == ["/0/a/b~1c"]
    assert "only once" in found[0][1]


def test_syntax_errors_tell_line_and_column() -> None:
    assert refusal('{"a": 1,\n  "b": }')[0][1] == "must be JSON: Expecting value at line 2, column 8"
    assert "at line 2, column" in refusal("a: 1\n b: [")[0][1]
    assert "must be YAML" in refusal("a: \x01")[0][1]
    assert "line 2" in refusal("a: 1\nb: \x01\n")[0][1]
    assert "line 2" in refusal(b"a: 1\nb: \xff\n")[0][1]


@pytest.mark.parametrize("text", ["a: &x [1]\nb: *x", "a: &x 1", "? *x\n: 1", "<<: {a: 1}", "a: &x {}\n<<: *x"])
def test_anchors_aliases_and_merges_are_refused(text: str) -> None:
    assert any(word in rule for _, rule in refusal(text) for word in ("anchor", "alias", "merge"))


def test_an_alias_bomb_is_refused_before_it_is_built() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"] + [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert "aliases" in refusal("\n".join(lines))[-1][1]


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("yes", True),
        ("on", True),
        ("y", True),
        ("N", False),
        ("Off", False),
        ("true", True),
        ("oN", "oN"),
        ("null", None),
        ("~", None),
        ("2020-01-01", "2020-01-01"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("1:30", "1:30"),
        ("010", 8),
        ("0o17", 15),
        ("08", 8),
        ("0x1F", 31),
        ("0b101", 5),
        ("-0b101", -5),
        ("1_000", 1000),
        ("+1", 1),
        ("1e3", 1000),
        (".5", 0.5),
        ("1.", 1),
        ("1.5", 1.5),
        ("1e400", "1e400"),
        ("1Gi", "1Gi"),
        ("-", "-"),
        (".", "."),
        ("=", "="),
    ],
)
def test_plain_scalars_mean_what_they_mean_to_kubectl(scalar: str, value: object) -> None:
    assert resolve(scalar) == value
    assert type(resolve(scalar)) is type(value)


def test_a_quoted_or_block_scalar_is_a_string() -> None:
    assert load_documents("a: \"on\"\nb: '1'\nc: |-\n  true\nd: !!str 1\ne: ! 1\n") == [
        {"a": "on", "b": "1", "c": "true", "d": "1", "e": "1"}
    ]


@pytest.mark.parametrize("key", ["on", "1", "null", "~", "1.5"])
def test_a_key_that_is_no_string_is_refused_instead_of_turned_into_one(key: str) -> None:
    [(pointer, rule)] = refusal(f"data:\n  {key}: x")
    assert pointer == "/0/data"
    assert "key must be a string" in rule
    assert "line 2, column 3" in rule


@pytest.mark.parametrize(
    "text", ["a: !!binary aGk=", "a: !thing x", "a: !!set {x}", "a: !!int x", "a: !!python/object:os.system x", "a: !!int on"]
)
def test_tags_that_json_does_not_have_are_refused(text: str) -> None:
    assert "tag" in refusal(text)[0][1]


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "a: .nan", "a: -.inf"])
def test_numbers_that_are_not_finite_are_refused(text: str) -> None:
    assert refusal(text) == [("/0/a", "must be a finite number")]


@pytest.mark.parametrize(
    "text", ['{"a": "x\\u0000y"}', '{"a": "\\ud800"}', 'a: "x\\0y"', '{"a": 18446744073709551616}', '{"a": %s}' % ("9" * 5000)]
)
def test_what_no_cluster_could_store_is_refused(text: str) -> None:
    assert refusal(text)


def test_surrogate_pairs_are_one_character() -> None:
    assert load_documents('{"a": "\\ud83d\\ude00"}') == [{"a": "\N{GRINNING FACE}"}]


def test_lone_surrogates_in_text_are_refused() -> None:
    assert "surrogate" in refusal("a: \ud800")[0][1]


@pytest.mark.parametrize("content", ["json", "yaml"])
@pytest.mark.parametrize("levels", [51, 5_000, 200_000])
def test_nesting_beyond_fifty_levels_is_refused(content: str, levels: int) -> None:
    text = '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    # The YAML scanner looks ahead and has a bound of its own at 1,000.
    assert re.search("at most 50 levels|maximum nesting depth", refusal(text, content=content)[0][1])


@pytest.mark.parametrize("content", ["json", "yaml"])
def test_fifty_levels_are_fine(content: Any) -> None:
    assert load_documents('{"a":' + "[" * 49 + "]" * 49 + "}", content=content)


def test_more_than_ten_thousand_documents_are_refused() -> None:
    assert "at most 10000 documents" in refusal("--- {a: 1}\n" * (MAX_DOCUMENTS + 1))[0][1]
    assert "at most 10000 documents" in refusal("{}" * (MAX_DOCUMENTS + 1), content="json")[0][1]
    items = {"kind": "List", "items": [{}] * (MAX_DOCUMENTS + 1)}
    assert "at most 10000 documents" in refusal(json.dumps(items))[0][1]


def test_documents_must_be_objects() -> None:
    assert refusal("a: 1\n--- 5") == [("/1", "must be an object: each document is one manifest")]
    assert refusal("[1]")[0][0] == "/0"


def test_a_text_too_large_is_refused_by_its_size() -> None:
    with pytest.raises(TooLargeError) as refused:
        load_documents("é" * 10, max_bytes=19)
    assert (refused.value.size, refused.value.limit) == (20, 19)


@pytest.mark.parametrize(
    "text", ["[" + "[]," * 1_300_000 + "[]]", "a: [" + "x," * 1_900_000 + "x]", "{" * 2_000_000, "- " * 2_000_000, "a: &a x\n" * 400_000]
)
@pytest.mark.timeout(100)
def test_hostile_texts_are_refused_before_anybody_loses_patience(text: str) -> None:
    assert refusal(text)


def test_all_faults_of_a_tree_come_at_once() -> None:
    with pytest.raises(InvalidError) as refused:
        check_tree({"b": math.inf, "a": ["x\0", {1: 2}], "c": object(), "d\0": 1}, pointer="/manifest")
    assert [problem.pointer for problem in refused.value.problems] == [
        "/manifest",
        "/manifest/a/0",
        "/manifest/a/1",
        "/manifest/b",
        "/manifest/c",
    ]


@pytest.mark.parametrize("content", ["json", "yaml"])
def test_a_long_key_is_not_repeated_by_every_problem_beneath_it(content: Any) -> None:
    text = json.dumps({"x" * 100_000: ["\0"] * 200, "y": {"z" * 1024: 1}})
    found = refusal(text, content=content)
    assert len(found) == 1
    assert "at most 1024 characters" in found[0][1]
    assert sum(len(pointer) for pointer, _ in found) < 100


def test_a_tree_may_hold_itself_without_harm() -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(InvalidError, match="at most 50 levels"):
        check_tree(tree)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_a_good_tree_comes_back_from_its_canonical_text(tree: dict[str, Any]) -> None:
    if "\\u0000" in json.dumps(tree):
        return
    tree.pop("kind", None)
    check_tree(tree)
    assert load_documents(canonical(tree)) == [tree]


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_what_is_written_as_yaml_with_quotes_reads_the_same(tree: dict[str, Any]) -> None:
    if "\\u0000" in json.dumps(tree) or not tree:
        return
    tree.pop("kind", None)
    # Under this style PyYAML writes numbers, booleans and null with tags; all of them fit their values.
    text = yaml.safe_dump(tree, default_style='"', allow_unicode=False)
    assert load_documents(text, content="yaml") == [tree]


def test_canonical_bytes_do_not_depend_on_the_order_of_keys() -> None:
    assert canonical({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    assert canonical({"a": "é", "b": 1}) == canonical({"b": 1, "a": "é"})


@given(st.text(max_size=60))
def test_any_text_is_loaded_or_refused_with_the_one_error(text: str) -> None:
    for content in CONTENTS:
        with contextlib.suppress(InvalidError):
            load_documents(text, content=content)
