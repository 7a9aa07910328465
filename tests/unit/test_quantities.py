"""Quantities are read exactly as a Kubernetes API server reads them."""

import contextlib
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clusters.quantities import QuantityError, format_bytes, format_quantity, parse_quantity

NUMBERS = st.from_regex(r"[+-]?([0-9]{1,12}(\.[0-9]{0,9})?|\.[0-9]{1,9})", fullmatch=True)
DECIMAL_SUFFIXES = {
    "": 0,
    "n": -9,
    "u": -6,
    "m": -3,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
    "e3": 3,
    "E3": 3,
    "e-2": -2,
    "E+2": 2,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("100m", "0.1"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("+1", "1"),
        ("-1", "-1"),
        ("129e6", "129000000"),
        ("123Mi", "128974848"),
        ("1Ei", "1152921504606846976"),
        ("1E", "1000000000000000000"),
        ("1E+3", "1000"),
        ("1e-3", "0.001"),
        ("1k", "1000"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1.Gi", "1073741824"),
        ("5u", "0.000005"),
        ("5n", "0.000000005"),
        ("007", "7"),
    ],
)
def test_every_form_of_the_grammar_has_its_exact_value(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


NOT_QUANTITIES = """
1K|1 Gi|1gi|1GiB|NaN|| 1|1 |1\t|1i|1ki|Gi|.|+|1.1.1|1e|e3|1e1.5|1mm|1_000|0x10|Infinity|\N{ARABIC-INDIC DIGIT ONE}|1,5|--1|1Mi3|1e3Mi
""".strip("\n").split("|")


@pytest.mark.parametrize("text", [*NOT_QUANTITIES, "1\n"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="must be a Kubernetes quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, False, None, [], {}, b"1", float("nan"), float("inf"), Decimal("NaN"), Decimal("Infinity")])
def test_a_value_that_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (2, "2"),
        (0.5, "0.5"),
        (0.1, "0.1"),
        (1e16, "10000000000000000"),
        (1e-05, "0.00001"),
        (Decimal("1E+3"), "1000"),
        (Decimal("0.1"), "0.1"),
    ],
)
def test_a_number_counts_as_its_json_text(value: float | Decimal, exact: str) -> None:
    assert parse_quantity(value) == Decimal(exact)


@pytest.mark.parametrize(
    "value", ["1e37", "1e999999999", "1e-999999999", "9" * 65, pytest.param(10**5000, id="an integer of 5001 digits"), "1e" + "9" * 62]
)
def test_absurd_numbers_are_refused_at_once(value: str | int) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value)


def test_finer_than_nano_is_rounded_away_from_zero_as_kubernetes_does() -> None:
    assert parse_quantity("0.9n") == Decimal("1e-9")
    assert parse_quantity("1.0000000001") == Decimal("1.000000001")
    assert parse_quantity("-0.1n") == Decimal("-1e-9")


def test_binary_quantities_are_capped_at_the_largest_64_bit_number() -> None:
    assert parse_quantity("8Ei") == 2**63 - 1
    assert parse_quantity("1000Ei") == 2**63 - 1
    assert parse_quantity("9223372036854775808") == 2**63


@given(NUMBERS, st.sampled_from(sorted(DECIMAL_SUFFIXES)))
def test_decimal_values_equal_rational_arithmetic(number: str, suffix: str) -> None:
    exact = Fraction(Decimal(number)) * Fraction(10) ** DECIMAL_SUFFIXES[suffix]
    found = Fraction(parse_quantity(number + suffix))
    assert abs(exact) <= abs(found) < abs(exact) + Fraction(1, 10**9)
    assert found * 10**9 == int(found * 10**9)


@given(NUMBERS, st.sampled_from(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]))
def test_binary_values_equal_rational_arithmetic_up_to_the_cap(number: str, suffix: str) -> None:
    power = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].index(suffix) + 1
    exact = min(abs(Fraction(Decimal(number)) * 1024**power), Fraction(2**63 - 1))
    found = abs(Fraction(parse_quantity(number + suffix)))
    assert exact <= found < exact + Fraction(1, 10**9)


@given(st.text(max_size=12))
def test_a_text_is_either_parsed_or_refused_with_the_one_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        assert parse_quantity(text).is_finite()


def test_messages_show_amounts_without_exponents() -> None:
    assert format_quantity(Decimal("1E+3")) == "1000"
    assert format_quantity(Decimal("1.500")) == "1.5"
    assert format_bytes(parse_quantity("4096Gi")) == "4Ti"
    assert format_bytes(Decimal(0)) == "0"
    assert format_bytes(Decimal(1000)) == "1000"
