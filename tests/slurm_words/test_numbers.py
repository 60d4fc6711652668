"""Numbers in text, plain or with a suffix."""

from __future__ import annotations

import pytest

from mirage.job_state import MISSING
from mirage.slurm_words.numbers import count_of, count_or_missing, decimal, whole_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", 8), (" 8 ", 8), ("2-4", 2), ("1K", 1024), ("2k", 2048), ("3M", 3 * 1024**2), ("1G", 1024**3),
        ("4.0", 4), ("4.9", 4), ("1-2K", 1), ("", 5), ("K", 5), ("1.5K", 1536), ("many", 5), ("1e400", 5), ("-3", 5),
    ],
)  # fmt: skip
def test_a_count(text: str, expected: int) -> None:
    assert count_of(text, 5) == expected
    if expected == 5:
        assert count_of(text) == 0


@pytest.mark.parametrize(("text", "expected"), [("4031", 4031.0), ("0.25", 0.25), ("", 0.0), ("N/A", 0.0)])
def test_a_number(text: str, expected: float) -> None:
    assert decimal(text) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("007", 7), ("9" * 15, 10**15 - 1), ("9" * 16, None), ("-1", None), ("1.0", None), ("٣", None),
        ("", None),
    ],
)  # fmt: skip
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number
    assert count_or_missing(text) == (MISSING if number is None else number)
