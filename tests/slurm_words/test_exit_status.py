"""Exit status of jobs, as text."""

from __future__ import annotations

import pytest

from mirage.slurm_words.exit_status import exit_of, exit_of_wait_status


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:0", (1, 0)), ("0:9", (0, 9)), (" 2:15 ", (2, 15)), ("3", (3, 0)), ("", (0, 0)), (":", (0, 0))],
)
def test_an_exit(text: str, expected: tuple[int, int]) -> None:
    assert exit_of(text) == expected


@pytest.mark.parametrize(("status", "expected"), [(256, (1, 0)), (9, (0, 9)), (4021, (0, 53))])
def test_a_wait_status_has_an_exit_code_or_a_signal(status: int, expected: tuple[int, int]) -> None:
    assert exit_of_wait_status(status) == expected
