"""Months and differences on the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.report.terminal.evaluation_text import print_evaluation
from tests.support.report_samples import PROVENANCE, evaluation

MONTHS = evaluation([Cost(1, 1)])
"""Sixty windows a day apart: 28 in October, 30 in November, 2 in December."""


def printed(shown: Evaluation, width: int = 140, *, by_month: bool = True) -> list[str]:
    out = io.StringIO()
    print_evaluation(shown, PROVENANCE, Console(file=out, width=width, highlight=False), by_month=by_month)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_column_a_month_and_a_row_a_policy() -> None:
    lines = printed(MONTHS)
    begin = lines.index("links of 1 node by month: interruption/overlap, cost, gap closed")
    assert lines[begin + 1 : begin + 5] == [
        "policy                 2024-10: 28 windows               2024-11: 30 windows  2024-12: 2 windows              "
        "     all: 60 windows",
        "reactive      10.75/0.00 10.75 0% [0%, 0%]      10.20/0.00 10.20 0% [0%, 0%]  19.00/0.00 19.00 -      10.75/0."
        "00 10.75 0% [0%, 0%]",
        "average      6.50/1.75 8.25 23% [17%, 39%]     6.07/1.87 7.93 22% [14%, 25%]  13.00/0.00 13.00 -     6.50/1.75"
        " 8.25 23% [19%, 27%]",
        "lead:4        7.50/0.75 8.25 23% [5%, 28%]     7.00/0.80 7.80 24% [22%, 27%]  15.00/0.00 15.00 -     7.50/0.75"
        " 8.25 23% [22%, 24%]",
    ]


def test_differences_have_their_sign_and_a_verdict_where_the_interval_allows_one() -> None:
    lines = printed(MONTHS)
    begin = lines.index("links of 1 node, difference from what-if, window by window: 60 windows")
    assert lines[begin + 2].split() == [
        "reactive", "+6.75", "[+5.49,", "+12.65]", "+7.00", "[+5.74,", "+12.90]", "-0.25", "[-1.51,", "-0.19]", "worse"
    ]  # fmt: skip
    assert lines[begin + 5].split()[0::10] == ["oracle", "better"]
    december = lines.index("links of 1 node, 2024-12, difference from what-if, window by window: 2 windows")
    assert lines[december + 2].split() == ["reactive", "+11.50", "+11.50", "+0.00"]


def test_months_only_where_they_are_requested() -> None:
    lines = printed(MONTHS, by_month=False)
    assert not [line for line in lines if "2024-1" in line and "from" not in line.split()]
    assert "links of 1 node, difference from what-if, window by window: 60 windows" in lines


def test_a_single_month_is_not_repeated() -> None:
    lines = printed(evaluation([Cost(1, 1)], windows=20))
    assert [line for line in lines if "difference from" in line] == [
        "links of 1 node, difference from what-if, window by window: 20 windows"
    ]


def test_several_costs_have_tables_each_and_a_narrow_terminal_cuts_nothing() -> None:
    lines = printed(evaluation([Cost(1, 1), Cost(5, 1), Cost(1, 0)]), 70)
    for cost in ("at 1:1", "at 5:1", "overlap free"):
        text = " ".join(lines)
        assert f"by month, {cost}: interruption/overlap" in text
        assert f"window by window, {cost}: 60 windows" in text
    assert "…" not in "".join(lines)
    assert max(map(len, lines)) <= 70
