"""Torn rows, cell by cell."""

from __future__ import annotations

import re

import pytest

from mirage.errors import LineError
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.torn_rows import Rejoiner

FIELDS = ["JobID", "JobName", "State", "AllocTRES", "TRESUsageInAve", "Comment"]


def rejoiner(fields: list[str] = FIELDS, delimiter: str = "|") -> Rejoiner:
    return Rejoiner(fields, LocalClock(), delimiter)


def test_a_name_holds_the_cells_that_fit_nothing_else() -> None:
    cells = ["7", "a", "b", "COMPLETED", "cpu=4", "cpu=1", ""]
    assert rejoiner().rejoin(cells) == ["7", "a|b", "COMPLETED", "cpu=4", "cpu=1", ""]


def test_a_remark_holds_what_follows_the_last_column() -> None:
    cells = ["7", "train", "FAILED", "", "", " out of memory", "retry"]
    assert rejoiner().rejoin(cells) == ["7", "train", "FAILED", "", "", " out of memory|retry"]


def test_a_row_may_be_torn_in_three_places_but_not_in_four() -> None:
    fields = ["JobID", "JobName", "State", "Comment", "Elapsed", "AdminComment", "NNodes", "WCKey", "NCPUS"]
    three = ["7", "a", "b", "FAILED", "c", "d", "00:01:00", "e", "f", "4", "key", "8"]
    assert rejoiner(fields).rejoin(three) == ["7", "a|b", "FAILED", "c|d", "00:01:00", "e|f", "4", "key", "8"]
    four = ["7", "a", "b", "FAILED", "c", "d", "00:01:00", "e", "f", "4", "key", "x", "8"]
    with pytest.raises(LineError, match="fits no field, or another field list than the header's"):
        rejoiner(fields).rejoin(four)


def test_where_readings_of_a_row_differ_it_is_refused() -> None:
    cells = ["7", "COMPLETED", "FAILED", "COMPLETED", ""]
    with pytest.raises(LineError) as refused:
        rejoiner(["JobID", "JobName", "State", "Comment"]).rejoin(cells)
    assert re.search("5 of 4.*can be read in more than one way; put JobName last in sacct -o", str(refused.value))


def test_a_state_is_one_of_slurm_s() -> None:
    cells = ["7", "on", "fire", "COMPLETED", "x"]
    assert rejoiner(["JobID", "JobName", "State", "Comment"]).rejoin(cells) == ["7", "on|fire", "COMPLETED", "x"]


@pytest.mark.parametrize("field", ["AllocTRES", "TRESUsageInAve", "Partition", "NodeList", "Flags", "ReqGRES"])
def test_with_commas_slurm_s_own_lists_are_torn_as_a_matter_of_course(field: str) -> None:
    text = "n1,n2" if "TRES" not in field else "cpu=4,mem=8G"
    fields = ["JobID", field, "State"]
    assert rejoiner(fields, ",").rejoin(["7", *text.split(","), "COMPLETED"]) == ["7", text, "COMPLETED"]
    with pytest.raises(LineError, match="a , inside a name that fits no field"):
        rejoiner(["JobID", "User", "State"], ",").rejoin(["7", "ada", "eve", "COMPLETED"])


@pytest.mark.parametrize(
    ("row", "begins"),
    [
        ("7|train|COMPLETED", True),
        ("7", True),
        ("7_[1-3%2]|train", True),
        ("7|whatever", True),
        ("|train|COMPLETED", False),
        ("echo 7", False),
        ("", False),
        ("batch|train|COMPLETED", False),
    ],
)
def test_what_begins_a_row(row: str, begins: bool) -> None:
    assert rejoiner().begins_row(row.split("|")) is begins


def test_what_stands_before_the_number_counts_and_the_last_cell_of_a_short_row_does_not() -> None:
    fields = ["User", "Elapsed", "JobID", "NNodes", "NCPUS", "Comment"]
    assert rejoiner(fields).begins_row(["ada", "00:01:00", "7", "4", "8"])
    assert rejoiner(fields).begins_row(["ada", "00:01:00", "7", "4", "cut"])
    assert not rejoiner(fields).begins_row(["ada", "00:01:00", "7", "x", "8"])
    assert not rejoiner(fields).begins_row(["ada", "00:01:00", "7", "4", "x", "a comment"])
    assert not rejoiner(fields).begins_row(["ada", "soon", "7", "4", "8", ""])
    assert not rejoiner(fields).begins_row(["ada", "00:01:00"])


def test_only_a_last_field_of_users_ends_in_several_lines() -> None:
    assert rejoiner().ends_in_several_lines
    assert not rejoiner(["JobID", "Comment", "WorkDir"]).ends_in_several_lines
    assert not rejoiner(["JobName", "JobID"]).ends_in_several_lines
