"""Figures as text."""

from __future__ import annotations

import pytest

from mirage.report.figures import gap_words
from mirage.study.intervals import Interval


@pytest.mark.parametrize(
    ("closed", "interval", "text"),
    [
        (0.345, (-0.25, 0.5), "34% [-25%, 50%]"),
        (-3.0, (-20.0, 1.0), "-300% [-2000%, 100%]"),
        (-3.0, (-20.01, 1.0), "-"),
        (-20.82, None, "-"),
        (None, None, "-"),
        (None, (0.0, 1.0), "-"),
    ],
)
def test_a_share_of_the_gap_has_its_interval_or_is_unknown(
    closed: float | None, interval: Interval | None, text: str
) -> None:
    assert gap_words(closed, interval) == text
