"""Label selectors as apimachinery reads them (`pkg/labels/selector_test.go` has the same cases), and faults told with their place."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clusters.selectors import Operator, parse_selector
from shared.errors import InvalidError


def selected(text, labels):
    return all(one.matches(labels) for one in parse_selector(text))


@pytest.mark.parametrize("text", ["", "  ", "\t\n"])
def test_a_blank_selector_takes_everything(text):
    assert parse_selector(text) == ()


@pytest.mark.parametrize(
    ("text", "labels", "right"),
    [
        ("x=y", {"x": "y"}, True),
        ("x=y", {"x": "z"}, False),
        ("x=y", {}, False),
        ("x==y", {"x": "y"}, True),
        ("x = y , z= w", {"x": "y", "z": "w"}, True),
        ("x=y,z=w", {"x": "y"}, False),
        ("x!=y", {"x": "z"}, True),
        ("x!=y", {"x": "y"}, False),
        ("x!=y", {}, True),
        ("x=", {"x": ""}, True),
        ("x=", {"x": "y"}, False),
        ("x=,z=w", {"x": "", "z": "w"}, True),
        ("x", {"x": ""}, True),
        ("x", {}, False),
        ("!x", {}, True),
        ("!x", {"x": "y"}, False),
        ("! x , z", {"z": ""}, True),
        ("x in (a,b)", {"x": "b"}, True),
        ("x in (a,b)", {"x": "c"}, False),
        ("x in (a,b)", {}, False),
        ("x in(a , b)", {"x": "b"}, True),
        ("x notin (a,b)", {"x": "c"}, True),
        ("x notin (a,b)", {}, True),
        ("x notin (a,b)", {"x": "a"}, False),
        ("x in (,a)", {"x": ""}, True),
        ("x in (a,)", {"x": ""}, True),
        ("x in (a,,b)", {"x": ""}, True),
        ("x in (a,)", {}, False),
        ("x>7", {"x": "8"}, True),
        ("x > 7", {"x": "7"}, False),
        ("x<7", {"x": "6"}, True),
        ("x<7", {"x": "six"}, False),
        ("x<7", {}, False),
        ("in in (in, notin)", {"in": "notin"}, True),
        ("in", {"in": "1"}, True),
        ("notin=in", {"notin": "in"}, True),
        ("gpufleet.io/managed=true,app.kubernetes.io/name in (a)", {"gpufleet.io/managed": "true", "app.kubernetes.io/name": "a"}, True),
    ],
)
def test_a_selector_is_read_as_kubernetes_reads_it(text, labels, right):
    assert selected(text, labels) is right


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("x=y,", 5, "the end instead of the key"),
        (",x", 1, "',' instead of the key"),
        ("x,,y", 3, "',' instead of the key"),
        ("x y", 3, "'y' instead of an operator"),
        ("x=y z", 5, "'z' instead of ',' or the end"),
        ("x=y=z", 4, "'=' instead of ',' or the end"),
        ("x=!y", 3, "'!' instead of the value"),
        ("!!x", 2, "'!' instead of the key"),
        ("!x=y", 3, "'=' instead of ',' or the end"),
        ("!x in (a)", 4, "'in' instead of ',' or the end"),
        ("x in a", 6, "'a' instead of '('"),
        ("x in (", 7, "the end instead of the value"),
        ("x in (a", 8, "the end instead of ',' or ')'"),
        ("x in (a b)", 9, "'b' instead of ',' or ')'"),
        ("x in ()", 7, "a set of values ends that has none"),
        ("x in ((a))", 7, "'(' instead of the value"),
        ("x==(a)", 4, "'(' instead of the value"),
        ("x>a", 3, "must be an integer"),
        ("x>", 3, "instead of an integer"),
        ("x<9223372036854775808", 3, "must be an integer"),
        ("x>-1", 3, "must be an integer"),
        ("-x", 1, "key must be"),
        ("a/b/c=d", 1, "key must be"),
        ("/b=d", 1, "key must be"),
        ("A.b/c", 1, "key must be"),
        ("k" * 64, 1, "key must be"),
        (f"{'p' * 254}/k", 1, "key must be"),
        ("x=" + "v" * 64, 3, "must be at most 63"),
        ("x in (a, -b)", 10, "must be at most 63"),
        ("x=a\0b", 3, "must be at most 63"),
        ("x=\ud800", 3, "must be at most 63"),
        ("schlüssel=a", 1, "key must be"),
        ("x=y\v,z", 3, "must be at most 63"),
        ("x; DROP", 1, "key must be"),
    ],
)
def test_a_fault_is_told_with_its_place(text, place, told):
    with pytest.raises(InvalidError) as caught:
        parse_selector(text, pointer="/label_selector")
    (problem,) = caught.value.problems
    assert problem.pointer == "/label_selector"
    assert f"at character {place} " in problem.rule
    assert told in problem.rule


def test_the_limits_are_those_of_labels():
    (found,) = parse_selector(f"{'p' * 253}/{'k' * 63} in ({'v' * 63})")
    assert found.operator is Operator.IN


@given(st.text(alphabet="ab/.-_0!=<>(), \tin", max_size=60))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InvalidError):
        for requirement in parse_selector(text):
            requirement.matches({"a": "b"})


@pytest.mark.parametrize("part", ["(", "!", "a,", "a in (", "=", ",", "a in (b,", " "])
def test_long_texts_take_no_long_time(part):
    with contextlib.suppress(InvalidError):
        parse_selector(part * 100_000)
