"""Time limits as Slurm prints them."""

from __future__ import annotations

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.slurm_words.time_limits import limit_s


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2-00:00:00", 172_800), ("1:30", 90), (" 10:00 ", 600), ("UNLIMITED", UNLIMITED_S), ("infinite", UNLIMITED_S),
        ("Partition_Limit", MISSING), ("soon", MISSING),
    ],
)  # fmt: skip
def test_a_limit(text: str, expected: int) -> None:
    assert limit_s(text) == expected
