"""Numbers in Slurm's JSON, in every shape they have had."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.slurm_words.json_numbers import json_number, number_or


def wrapped(value, *, infinite=False):
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (5, 5), ("5", 5), (0, 0), (None, MISSING), (wrapped(5), 5), (wrapped(None), MISSING),
        (wrapped(7, infinite=True), -7), (4_294_967_294, MISSING), (4_294_967_295, -7), (-2, MISSING),
    ],
)  # fmt: skip
def test_numbers_in_every_shape(value, known):
    assert json_number(value, infinite=-7) == known


@pytest.mark.parametrize(
    ("bits", "no_value", "infinite"),
    [(16, 0xFFFE, 0xFFFF), (32, 0xFFFFFFFE, 0xFFFFFFFF), (64, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF)],
)
def test_the_sentinels_of_slurm_h_by_width(bits, no_value, infinite):
    for shape in (lambda number: number, wrapped):
        assert json_number(shape(no_value), bits=bits) == MISSING
        assert json_number(shape(infinite), bits=bits) == UNLIMITED_S
        assert number_or(shape(no_value), 8, bits=bits) == 8


def test_job_65534_and_65535_are_jobs_like_any_other():
    assert [json_number(number) for number in (65_533, 65_534, 65_535, 65_536)] == [65_533, 65_534, 65_535, 65_536]
    assert json_number(65_533, bits=16) == 65_533


@pytest.mark.parametrize("value", [True, "five", "9" * 5_000, [], [5], math.nan, math.inf, wrapped("x"), wrapped({})])
def test_what_is_no_number(value):
    with pytest.raises(ValueError, match="is not a number"):
        json_number({"set": True, "number": {"set": True}} if value == wrapped({}) else value)
    assert number_or(value if value != wrapped({}) else "x", 3) == 3


@pytest.mark.parametrize("value", [-1, -5.0])
def test_negative_numbers_are_missing(value):
    assert json_number(value) == MISSING


@pytest.mark.parametrize("value", [2**40, 10**15, 10**400, 1e300])
def test_numbers_too_large_for_any_field_are_no_numbers(value):
    with pytest.raises(ValueError, match="larger than any number in Slurm"):
        json_number(value)
    assert json_number(2**40 - 1) == 2**40 - 1
    assert number_or(wrapped(value), 3) == 3


noise = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["set", "number", "infinite"]), inner),
    max_leaves=8,
)


@given(noise, st.sampled_from([16, 32, 64]))
def test_the_default_replaces_everything_else(value, bits):
    number = number_or(value, 7, bits=bits)
    assert 0 <= number <= UNLIMITED_S
