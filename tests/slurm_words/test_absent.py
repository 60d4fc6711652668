"""Words of Slurm for a missing value."""

from __future__ import annotations

import pytest

from mirage.job_state import MISSING
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.time_limits import limit_s
from mirage.slurm_words.timestamps import instant_s


@pytest.mark.parametrize(
    "nothing",
    ["", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "UNKNOWN", "INVALID", "NOT_SET", "null", "  N/A\n"],
)
def test_words_for_nothing(nothing: str) -> None:
    assert text_of(nothing) == ""
    assert instant_s(nothing) == limit_s(nothing) == MISSING


def test_a_text_without_the_space_around_it() -> None:
    assert (text_of(" a b\n"), text_of("none"), text_of("Nones")) == ("a b", "", "Nones")
