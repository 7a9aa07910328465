"""How placeholders are found and filled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import TooLargeError
from shared.templates.placeholders import fill, places, unclosed

LIMIT = 1_000_000


def filled(manifest, **values):
    found = fill(manifest, values, limit=LIMIT)
    assert found.problems == ()
    assert not found.open
    return found.manifest


@pytest.mark.parametrize("value", ["text", 3, 1.5, True, False, None, {"a": [1]}, [1, {"b": None}], "", 10**18])
def test_a_whole_string_becomes_the_value_with_its_type(value):
    found = filled({"spec": {"x": "{{v}}"}}, v=value)["spec"]["x"]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["{{v}}", "{{ v }}", "{{\tv\n}}", "{{v }}"])
def test_blanks_around_the_name_mean_nothing(text):
    assert filled([text], v=7) == [7]


@pytest.mark.parametrize(
    ("value", "written"), [("b", "b"), (3, "3"), (1.5, "1.5"), (True, "true"), (False, "false"), (1e22, "1e+22"), (-0.5, "-0.5")]
)
def test_within_a_longer_string_scalars_are_written_as_json_writes_them(value, written):
    assert filled({"x": "a-{{v}}-c {{v}}"}, v=value) == {"x": f"a-{written}-c {written}"}


@pytest.mark.parametrize(
    "text", ["{{}}", "{{ a b }}", "{{ .Values.a }}", "{ {a} }", "{{a}", "{{a.b}}", "{{ä}}", "$(A)", "{{a|b}}", "{%a%}", "{{\u00a0a}}"]
)
def test_what_only_looks_alike_stays_as_it_is(text):
    assert filled({text: text}, a="no") == {text: text}
    assert list(places({text: text})) == []


@pytest.mark.parametrize("text", ["{{a", "{{ a", "{{a ", "x {{a}", "{{a} }", "{{a}x", "{{b}} {{ a }", "{{\ta\n", "{{{a}"])
def test_a_placeholder_that_is_begun_and_not_closed_is_found(text):
    assert [(one.name, one.pointer) for one in unclosed({"x": [text]})] == [("a", "/x/0")]
    assert [(one.name, one.pointer) for one in unclosed({text: 1})] == [("a", "/" + text)]


@pytest.mark.parametrize(
    "text",
    [
        "{{a}}",
        "{{{a}}}",
        "{{a}}}",
        "}}",
        "a}}",
        "{a}}",
        "{{",
        "{{ }",
        "{{}",
        "{{ .State }",
        "{{a,b},c}",
        "${a:-${b}}",
        "{{a.b}",
        "{{a b}",
        "{a}",
    ],
)
def test_other_braces_are_no_placeholder_that_was_meant(text):
    assert list(unclosed({text: text})) == []


def test_it_is_known_what_was_made_of_which_parameters():
    manifest = {"a": ["{{x}}", "-{{y}}-{{x}}-", "{{open}}"], "{{k}}": {"b": 1}, "{{k}}2": "{{x}}", "plain": 1}

    found = fill(manifest, {"x": 1, "y": 2, "k": "o/k"}, limit=LIMIT, pointer="/m")

    assert found.origins == {"/m/a/0": ("x",), "/m/a/1": ("y", "x"), "/m/o~1k": ("k",), "/m/o~1k2": ("k", "x")}


def test_the_innermost_braces_count():
    assert filled("{{{a}}}", a=5) == "{5}"


@pytest.mark.parametrize(
    "hostile", ['x","hostNetwork":true,"z":"y', "a\nb", "\\1", "C:\\new", "\\g<0>", '"', "{{b}}", "{{ a }}", "é" * 10, "\u2028"]
)
def test_a_string_stays_one_string(hostile):
    """Case 21, and what breaks substitution in text."""
    manifest = {"env": [{"value": "{{a}}"}, {"value": "<{{a}}>"}], "b": "{{b}}"}

    assert filled(manifest, a=hostile, b="{{a}}") == {"env": [{"value": hostile}, {"value": f"<{hostile}>"}], "b": "{{a}}"}


def test_keys_hold_placeholders_too():
    found = filled({"labels": {"team/{{t}}": "a", "{{n}}": "b", "plain": "c"}}, t="ml", n=5)

    assert found == {"labels": {"team/ml": "a", "5": "b", "plain": "c"}}


@pytest.mark.parametrize("value", [{"a": 1}, [1], None])
@pytest.mark.parametrize("manifest", [{"x": {"y": "a{{v}}"}}, {"x": {"{{v}}": 1}}])
def test_what_has_no_text_can_not_be_written_into_one(manifest, value):
    found = fill(manifest, {"v": value}, limit=LIMIT)

    [problem] = found.problems
    assert problem.pointer == "/parameters/v"
    assert "must be a string, a number or a boolean" in problem.rule
    assert "/manifest/x" in problem.rule
    assert found.manifest == manifest


def test_a_wrong_value_is_told_once_however_often_it_is_used():
    assert len(fill({"x": ["a{{v}}"] * 50}, {"v": {}}, limit=LIMIT).problems) == 1


def test_keys_that_become_the_same_are_told_at_what_made_them_so():
    found = fill({"labels": {"{{a}}": 1, "x": 2, "{{b}}-": 3}}, {"a": "x", "b": "y"}, limit=LIMIT)

    [problem] = found.problems
    assert (problem.pointer, problem.value) == ("/parameters/a", "x")
    assert "the key 'x' stand twice in the object at /manifest/labels" in problem.rule


def test_what_has_no_value_is_left_open():
    found = fill({"a": "{{x}}", "b": ["c", "d{{y}}"], "e": {"{{z}}": 1}, "f": "{{v}}"}, {"v": 1}, limit=LIMIT)

    assert found.manifest == {"a": "{{x}}", "b": ["c", "d{{y}}"], "e": {"{{z}}": 1}, "f": 1}
    assert found.open == {"/manifest/a", "/manifest/b/1", "/manifest/e"}


def test_the_template_and_the_values_are_left_as_they_are():
    manifest, value = {"a": "{{v}}", "b": "{{v}}", "c": {"d": []}}, {"x": []}
    found = filled(manifest, v=value)
    found["a"]["x"].append(1)
    found["c"]["d"].append(1)

    assert found["b"] == value == {"x": []}
    assert manifest == {"a": "{{v}}", "b": "{{v}}", "c": {"d": []}}


def test_pointers_of_places_are_json_pointers():
    found = [(place.name, place.pointer, place.role.value) for place in places({"a/b": ["{{x}}", "~{{y}}"], "{{z}}": 1})]

    assert found == [("z", "/{{z}}", "part"), ("x", "/a~1b/0", "whole"), ("y", "/a~1b/1", "part")]


@pytest.mark.parametrize("text", ["{{a}}", "{{a}} ", "{{a}}{{a}}"])
def test_what_would_be_too_large_is_refused_before_it_is_built(text):
    with pytest.raises(TooLargeError) as refused:
        fill({"x": [text] * 50_000}, {"a": "x" * 1_000_000}, limit=LIMIT)

    assert refused.value.size >= 50_000_000_000
    assert refused.value.problems[0].pointer == "/parameters"


def test_endless_braces_take_no_time():
    for text in ("{{" * 200_000, "{{" + " " * 500_000, "{{" + "a" * 500_000, "{{ a " * 100_000):
        assert filled(text, a=1) == text


def test_filling_is_the_same_as_in_text_where_values_are_harmless():
    manifest = {"a": ["{{x}}", {"b": "{{ y }}/{{x}}"}], "c": 1}

    assert filled(manifest, x="u", y="v") == json.loads(json.dumps(manifest).replace("{{x}}", "u").replace("{{ y }}", "v"))


NAMES = st.sampled_from(["a", "b", "c-1", "D_2"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.lists(st.text(max_size=5) | NAMES.map("{{{{ {} }}}}".format), max_size=3).map("".join)
MANIFESTS = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def shape_of(tree):
    """What is structure: kinds and numbers of elements; of scalars nothing."""
    if isinstance(tree, dict):
        return "object", sorted(repr(shape_of(item)) for item in tree.values())
    return ("array", [shape_of(item) for item in tree]) if isinstance(tree, list) else "scalar"


@given(MANIFESTS, st.dictionaries(NAMES, st.text(max_size=12)))
def test_no_text_changes_the_structure(manifest, values):
    found = fill(manifest, values, limit=LIMIT)
    if not found.problems:
        assert shape_of(found.manifest) == shape_of(manifest)


@given(MANIFESTS, st.dictionaries(NAMES, VALUES))
def test_what_is_filled_is_all_that_could_be(manifest, values):
    found = fill(manifest, values, limit=LIMIT)
    needed = {place.name for place in places(manifest)}

    assert bool(found.open) >= bool(needed - values.keys())
    assert {problem.pointer.removeprefix("/parameters/") for problem in found.problems} <= needed & values.keys()
    if not needed:
        assert found.manifest == manifest
    json.dumps(found.manifest, allow_nan=False)
