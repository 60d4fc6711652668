"""Durations as Slurm writes them and as people do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import UNLIMITED_S, format_duration, parse_duration_s, parse_limit_s
from mirage.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1_800), ("0", 0), ("1:30", 90), ("01:00:00", 3_600), ("2-0", 172_800), ("2-12", 216_000),
        ("2-12:30", 217_800), ("2-00:00:01", 172_801), ("00:01.203", 1), ("1:02:03.9", 3_723), (" 48:00:00\n", 172_800),
        ("90m", 5_400), ("4H", 14_400), ("1.5h", 5_400), ("2d", 172_800), ("1w", 604_800), ("0.5s", 0), ("7s", 7),
        ("UNLIMITED", UNLIMITED_S), ("infinite", UNLIMITED_S), ("-1", UNLIMITED_S),
        ("999999999w", UNLIMITED_S), ("999999999-00:00:00", UNLIMITED_S), ("999999999:0:0", UNLIMITED_S),
    ],
)  # fmt: skip
def test_a_duration(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "4 h",
        "-2",
        "1:2:3:4",
        "1-2-3",
        "h",
        "1.h",
        "1e3s",
        "٣",
        "٣h",
        "1" * 10,
        "9" * 400 + "h",
        "9" * 5_000,
    ],
)
def test_what_is_none_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is no duration; write it as Slurm does \(2-00:00:00"):
        parse_duration_s(text)


@pytest.mark.parametrize(("text", "seconds"), [("0", UNLIMITED_S), ("00:00:00", UNLIMITED_S), ("30", 1_800)])
def test_a_time_limit_of_nothing_is_none(text: str, seconds: int) -> None:
    assert parse_limit_s(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00:00"), (59, "00:00:59"), (3_600, "01:00:00"), (86_399, "23:59:59"), (86_400, "1-00:00:00"),
     (216_061, "2-12:01:01"), (-90, "-00:01:30"), (-90_000, "-1-01:00:00"), (UNLIMITED_S, "UNLIMITED")],
)  # fmt: skip
def test_a_duration_as_slurm_prints_it(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**10))
def test_what_is_printed_can_be_read(seconds: int) -> None:
    assert parse_duration_s(format_duration(seconds)) == seconds
