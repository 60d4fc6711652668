"""Cells of the tables of results."""

from __future__ import annotations

import pytest

from mirage.provision.evaluation.policy_score import EvaluationRow
from mirage.report.judgement.result_cells import at, difference, gap, markdown, named, percent, points, share
from mirage.report.judgement.result_cells import with_interval as interval_cell
from tests.support.made_up_results import less, row


def test_a_table_in_markdown() -> None:
    assert markdown(("", "policy", "h"), [["a", "b", "1"], ["c", "d", "2"]]) == (
        "|  | policy | h |\n|---|---|---|\n| a | b | 1 |\n| c | d | 2 |"
    )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (row("a", 1.0, gap_closed=None), "–"),
        (row("a", 1.0, gap_closed=0.345, gap_closed_95=None), "–"),
        (row("a", 1.0, gap_closed=0.345, gap_closed_95=(-0.25, 0.5)), "34 % (-25 … 50)"),
        (row("a", 1.0, gap_closed=0.345, gap_closed_95=(-20.0, 0.5)), "34 % (-2000 … 50)"),
        (row("a", 1.0, gap_closed=0.345, gap_closed_95=(-20.01, 0.5)), "–"),
    ],
)
def test_the_gap_closed(found: EvaluationRow, text: str) -> None:
    assert gap(found) == text


def test_differences_are_bold_where_they_are_beyond_doubt() -> None:
    assert difference(None) == ""
    assert difference(less("a", -1.25, None)) == "-1.25"
    assert difference(less("a", -1.25, 1.0)) == "**-1.25 (-2.25 … -0.25)**"
    assert difference(less("a", 1.25, 2.0)) == "+1.25 (-0.75 … +3.25)"
    assert difference(less("a", -1.25, 1.0, p_corrected=0.06)) == "-1.25 (-2.25 … -0.25)", "one of many"


def test_points_are_bold_where_they_are_beyond_doubt() -> None:
    assert points(None, (1.0, 2.0), "better") == ""
    assert points(-0.0525, None, "") == "-5.2"
    assert points(0.25, (0.125, 0.5), "better") == "**+25.0 (+12.5 … +50.0)**"
    assert points(-0.25, (-0.5, -0.125), "worse") == "**-25.0 (-50.0 … -12.5)**"
    assert points(0.25, (0.125, 0.5), "") == "+25.0 (+12.5 … +50.0)"


def test_shares_means_names_and_ratios() -> None:
    assert (share(0.255, None), share(0.255, (0.1, 0.375)), percent(1.0)) == ("26 %", "26 % (10 … 38)", "100 %")
    assert (interval_cell(1.256, None), interval_cell(1.256, (0.5, 2.0))) == ("1.26", "1.26 (0.50 … 2.00)")
    assert named(("a", "b:1")) == "`a`, `b:1`"
    assert (at(None), at(3.0), at(0.5)) == ("with free overlap", "at 3 : 1", "at 0.5 : 1")
