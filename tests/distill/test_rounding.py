"""Numbers are written readably and exactly; the simplest of an interval is found."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.distill.rounding import rounded
from mirage.distill.tree import Leaf, Split, Tree, TreeFeature
from mirage.distill.units import Unit, number_of, simplest, written
from mirage.errors import ConfigurationError
from tests.support.small_trees import NUMBERS

UNITS = st.sampled_from(list(Unit))


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (21_600, Unit.DURATION, "6h"),
        (100_800, Unit.DURATION, "1d 4h"),
        (-90_061.5, Unit.DURATION, "-1d 1h 1min 1.5s"),
        (0, Unit.DURATION, "0s"),
        (2e12, Unit.DURATION, "2000000000000s"),
        (0.07, Unit.SHARE, "7 %"),
        (1.2, Unit.SHARE, "120 %"),
        (0.1 + 0.2, Unit.NUMBER, "0.30000000000000004"),
        (17, Unit.NUMBER, "17"),
        (1e20, Unit.NUMBER, "1e+20"),
    ],
)
def test_how_numbers_are_written(number, unit, text):
    assert written(number, unit) == text
    assert number_of(text, unit) == number


@given(NUMBERS, UNITS)
def test_every_float_is_read_as_it_was_written(number, unit):
    assert number_of(written(number, unit), unit) == number


@pytest.mark.parametrize("text", ["", "six", "1e999", "nan", "inf", "0x10", "1_000", "٣"])
def test_what_is_no_number(text):
    with pytest.raises(ConfigurationError, match=r"is not a number; write it as 12 or 0\.5"):
        number_of(text, Unit.NUMBER)


@pytest.mark.parametrize(
    ("low", "high", "near", "unit", "simple"),
    [
        (21_595, 21_612, 21_603, Unit.DURATION, (21_600, True)),  # 6h
        (19_700, 20_000, 19_850, Unit.DURATION, (19_800, True)),  # 5h 30min
        (44, 58, 51, Unit.DURATION, (50, True)),
        (0.7951, 0.8203, 0.81, Unit.SHARE, (0.8, True)),
        (16, 17, 16.5, Unit.NUMBER, (17, True)),
        (11, 59, 35, Unit.NUMBER, (50, True)),
        (11, 49, 35, Unit.NUMBER, (40, True)),  # 20, 30 and 40 are as simple, and half a step is rounded up
        (122, 123, 122.5, Unit.NUMBER, (123, False)),
        (-3.2, -2.9, -3, Unit.NUMBER, (-3, True)),
        (-1, 1, 0.5, Unit.NUMBER, (0, True)),
        (0, 0, 0, Unit.FLAG, (0.5, True)),
    ],
)
def test_the_simplest_number_of_an_interval(low, high, near, unit, simple):
    assert simplest(low, high, near, unit) == simple


PAIRS = st.tuples(NUMBERS, NUMBERS) | NUMBERS.map(lambda low: (low, math.nextafter(low, 0)))


@given(PAIRS.filter(lambda pair: pair[0] != pair[1]), st.floats(0, 1), UNITS)
def test_the_simplest_number_lies_in_the_interval(pair, part, unit):
    low, high = sorted(pair)
    number, _ = simplest(low, high, low * (1 - part) + high * part, unit)
    assert low < number <= high or unit is Unit.FLAG


def test_a_tree_is_rounded_in_the_units_of_its_features_and_merged():
    features = (
        TreeFeature("remaining", Unit.DURATION),
        TreeFeature("load", Unit.SHARE),
        TreeFeature("weekend", Unit.FLAG),
    )
    flag = Split("weekend", 0.5, Leaf("wait"), Leaf("submit"))
    again = Split("remaining", 21_000, Leaf("wait"), flag)  # becomes 6h as well, and decides nothing
    tree = Tree(features, ("wait", "submit"), Split("remaining", 21_543.7, Split("load", 0.8123, again, flag), flag))
    assert rounded(tree).root == Split("remaining", 21_600, Split("load", 0.8, Leaf("wait"), flag), flag)
    assert rounded(tree, 0.0) == tree
