"""Exit status of jobs, as text."""

from __future__ import annotations

import pytest

from mirage.slurm_words.exit_status import exit_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:0", (1, 0)), ("0:9", (0, 9)), (" 2:15 ", (2, 15)), ("3", (3, 0)), ("", (0, 0)), (":", (0, 0))],
)
def test_an_exit(text: str, expected: tuple[int, int]) -> None:
    assert exit_of(text) == expected
