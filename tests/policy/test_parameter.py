"""Parameters in the name of a policy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mirage.errors import ConfigurationError
from mirage.policy.parameter import COUNT, SHARE, YES_OR_NO, read_parameters

FORMS = {"futures": COUNT, "tie": SHARE, "quick": YES_OR_NO}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("64", {"futures": 64}),
        ("futures=64", {"futures": 64}),
        ("64:tie=0.05", {"futures": 64, "tie": 0.05}),
        ("tie=0:quick=no:futures=2", {"futures": 2, "tie": 0.0, "quick": False}),
        ("quick=yes", {"quick": True}),
    ],
)
def test_values_are_read(text: str, values: dict[str, Any]) -> None:
    assert read_parameters("p", text, FORMS) == values


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("many", "many"),
        ("0", "0"),
        ("64:32", "32"),
        ("64:futures=32", "futures=32"),
        ("tie=nan", "tie=nan"),
        ("tie=1.5", "tie=1.5"),
        ("quick=perhaps", "quick=perhaps"),
        ("64:speed=3", "speed=3"),
        ("64:", ""),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_what_there_is(text: str, bad: str) -> None:
    known = "futures=NUMBER (at least 1), tie=SHARE (0 to 1), quick=yes|no"
    with pytest.raises(ConfigurationError, match=re.escape(f"p takes {known}, separated by colons; got '{bad}'")):
        read_parameters("p", text, FORMS)


def test_a_message_names_the_range_of_a_number_and_no_separator_where_there_is_one_form() -> None:
    with pytest.raises(ConfigurationError, match=r"singleton takes links=NUMBER \(at least 1\); got '0'"):
        read_parameters("singleton", "0", {"links": COUNT})
