"""Folding of job names: runs of one thing are alike, different things are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.slurm_words.job_names import LONGEST, fold_name

ALIKE = [
    ("train_v3_017", "train_v3_018", "Train_v3_1", "train_v4_[3-9%2]", "train_v3_"),
    ("sweep[12]", "sweep[13]", "sweep"),
    ("run-2023-01-05", "run-2024-11-30", "run"),
    ("lr0.001_wd1", "lr0.1_wd2"),
    ("step 7 of 9", "step  12 of 9"),
    ("eval-1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "eval-0c1d6bcd-aaaa-4b2d-9b5d-ab8dfbbd4bff", "eval"),
    ("job_a1b2c3d4e5", "job_ffffffff0", "job"),
    ("123", "4567", "12_3"),
    ("ls6\ttest", "ls7 test"),
]


@pytest.mark.parametrize("names", ALIKE)
def test_runs_of_the_same_are_alike(names: tuple[str, ...]) -> None:
    assert len({fold_name(name) for name in names}) == 1, [fold_name(name) for name in names]


def test_different_things_stay_apart() -> None:
    names = ["train", "eval", "train.sh", "a|b", "größe", "训练", "decade", "effaced", "lr0.1_wd2", "x2y3", "2fast"]
    assert len({fold_name(name) for name in names}) == len(names), [fold_name(name) for name in names]
    assert [fold_name(first) for first, *_ in ALIKE[:4]] == ["train_v", "sweep", "run", "lr#_wd"]


def test_only_the_empty_name_folds_to_nothing() -> None:
    assert [fold_name(name) for name in ("", "  ", "0", "--", "[1-9]")] == ["", "", "#", "#", "#"]


@given(st.text(max_size=100))
def test_a_folded_name_is_short_holds_no_digit_and_folds_to_itself(name: str) -> None:
    folded = fold_name(name)
    assert len(folded) <= LONGEST
    assert not any(character.isdecimal() for character in folded)
    assert bool(folded) == bool(name.strip())
    assert fold_name(folded) == folded
