"""Typed values are those of boto3, for every value that an item here is made of."""

from decimal import Decimal

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from shared.store.values import from_typed, to_typed

numbers = st.one_of(
    st.integers(min_value=-(10**37), max_value=10**37),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=4),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.text(), st.binary(min_size=1), numbers),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(min_size=1), inner)),
    max_leaves=20,
)


@given(values)
def test_a_value_becomes_what_boto3_makes_of_it(value):
    assert to_typed(value) == TypeSerializer().serialize(value)


@given(values)
def test_a_typed_value_becomes_what_it_was(value):
    assert from_typed(to_typed(value)) == value


@given(values.filter(lambda value: not isinstance(value, bytes)))
def test_a_typed_value_is_read_as_boto3_reads_it(value):
    typed = to_typed(value)

    assert from_typed(typed) == TypeDeserializer().deserialize(typed)


@pytest.mark.parametrize("value", [1.5, {"a", "b"}, object(), [1.5]])
def test_a_type_that_items_are_not_made_of_is_refused(value):
    with pytest.raises(TypeError, match="is no type of an item's value"):
        to_typed(value)


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), 10**38 + 1, Decimal("1." + "0" * 38 + "1")])
def test_a_number_that_dynamodb_would_refuse_is_refused(value):
    with pytest.raises(ValueError, match="is no number that DynamoDB keeps exactly"):
        to_typed(value)


def test_a_set_that_somebody_else_wrote_is_not_read():
    with pytest.raises(TypeError, match="SS is no type"):
        from_typed({"SS": ["a"]})
