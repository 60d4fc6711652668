"""Findings as sentences: proven and open ones, from differences and claims made by hand."""

from __future__ import annotations

from dataclasses import replace

from mirage.report.judgement.findings import claims_table, claims_words, findings
from mirage.report.judgement.result_tables import ResultsView
from tests.support.made_up_results import claim, compared, less, row

ROWS = (
    row("average", 9.0), row("xgboost-2023", 7.0, interruption_h=3.25, overlap_h=0.5), row("reactive", 12.0),
    row("what-if", 6.0, gap_closed=0.5, gap_closed_95=(-21.0, 0.9)), row("correction", 5.0, gap_closed=None),
    row("lead:4", 4.0), row("oracle", 1.0), row("what-if", 99.0, ratio=None), row("correction", 1.0, nodes=1),
)  # fmt: skip


def test_better_worse_and_not_distinguishable() -> None:
    paired = (
        less("average", 3.0, 1.0), less("reactive", 6.0, 5.0), less("xgboost-2023", 1.0, 1.5),
        less("correction", -1.0, 0.5), less("lead:4", -2.0, None), less("oracle", -5.0, 1.0),
    )  # fmt: skip
    view = ResultsView(compared(*paired, rows=ROWS), 8, 2.0)
    assert findings(view) == (
        "**Links of 8 nodes at 2 : 1.** "
        "The cheapest published method is `xgboost-2023` (3.25 / 0.50 h, gap closed 34 % (30 … 40); "
        "+1.00 (-0.50 … +2.50) against `what-if`). "
        "The cheapest of ours is `correction` (1.50 / 0.25 h, gap closed –; -1.00 (-1.50 … -0.50) against `what-if`). "
        "Better than `what-if` beyond doubt: `correction`. "
        "Worse than `what-if` beyond doubt: `average`, `reactive`. "
        "Not distinguishable from `what-if`: `xgboost-2023`, `lead:4`."
    )
    assert findings(ResultsView(compared(*paired[:2], rows=ROWS), 8, 2.0)).endswith(
        "Nothing is better than `what-if` beyond doubt. Worse than `what-if` beyond doubt: `average`, `reactive`."
    )


def test_where_overlap_is_free_the_reference_itself_can_be_the_cheapest() -> None:
    view = ResultsView(compared(less("average", -1.0, 0.5, ratio=None), rows=ROWS), 8, None)
    assert findings(view) == (
        "**Links of 8 nodes with free overlap.** The cheapest of ours is `what-if` (1.50 / 0.25 h, gap closed 34 % "
        "(30 … 40)). Better than `what-if` beyond doubt: `average`."
    )


def test_policies_are_compared_with_the_reactive_chain() -> None:
    against = [
        less("average", -3.0, 1.0, against="reactive"), less("what-if", -6.0, 5.0, against="reactive"),
        less("lead:4", 2.0, 1.0, against="reactive"), less("oracle", -9.0, 1.0, against="reactive"),
        less("correction", -9.0, 1.0, ratio=None, against="reactive"),
        less("xgboost-2023", -9.0, 1.0, link_nodes=1, against="reactive"),
    ]  # fmt: skip
    view = ResultsView(compared(reactive=tuple(against)), 8, 2.0)
    assert findings(view) == (
        "**Links of 8 nodes at 2 : 1.** Cheaper than `reactive` beyond doubt: `average`, `what-if`. "
        "More expensive: `lead:4`."
    )
    assert findings(replace(view, comparison=compared(reactive=tuple(against[2:])))) == (
        "**Links of 8 nodes at 2 : 1.** Nothing costs less than `reactive` beyond doubt. More expensive: `lead:4`."
    )


def test_without_any_result_there_is_no_paragraph() -> None:
    assert findings(ResultsView(compared(), 8, 2.0)) == ""


CLAIMS = (
    claim("average", "medium", 0.5, 0.25, less_95=(0.2, 0.7), without_95=(0.2, 0.3)),
    claim("average", "heavy", 0.1, 0.05, overlap_h=2.5, less_95=(0.05, 0.15), without_95=(0.0, 0.1)),
    claim("xgboost-2023", "medium", None, 0.75, less_95=None, without_95=(0.5, 0.9)),
    claim("xgboost-2023", "all", 0.99, 0.99),
    claim("reactive", "medium", 0.0, 0.01),
    claim("correction", "heavy", 0.98, 0.98),
    claim("average", "light", 0.97, 0.97),
    claim("average", "heavy", 0.01, 0.0, link_nodes=1, overlap_h=9.0),
)
LIGHT = claim("reactive", "light", 0.0, 0.825, reactive_h=0.35, interruption_h=0.35, overlap_h=0.0)


def test_the_claims_of_the_paper_hold_fail_or_are_undecided() -> None:
    ranges = (
        "**Links of 8 nodes.** In medium and heavy load the published methods that do more than react cut "
        "interruption by 10 % to 50 % (claimed: 17 % to 100 %) and leave 5 % to 75 % of hand-overs without any "
        "(claimed: 23 % to 76 %), at 0.75 to 2.50 h of overlap. "
        "At least 17 % less: holds beyond the interval for `average` in medium load (0.75 h); "
        "fails beyond the interval for `average` in heavy load (2.50 h); "
        "is undecided for `xgboost-2023` in medium load (0.75 h). "
        "At least 23 % without any: holds beyond the interval for `xgboost-2023` in medium load (0.75 h); "
        "fails beyond the interval for `average` in heavy load (2.50 h); "
        "is undecided for `average` in medium load (0.75 h)."
    )
    assert claims_words(compared(claims=CLAIMS), 8) == ranges
    light = (
        "In light load there are 0.35 h to cut, and 82 % of reactive hand-overs have no interruption: shares are not "
        "informative there, and the table gives hours."
    )
    assert claims_words(compared(claims=(*CLAIMS, LIGHT)), 8) == f"{ranges} {light}"
    assert claims_words(compared(claims=(LIGHT,)), 8) == f"**Links of 8 nodes.** {light}"
    assert claims_words(compared(claims=CLAIMS), 2) == ""


def test_where_the_reactive_chain_has_no_interruption_there_is_nothing_to_cut() -> None:
    words = claims_words(compared(claims=(CLAIMS[2],)), 8)
    assert "methods that do more than react had nothing to cut (claimed: 17 % to 100 %) and leave 75 % to 75 %" in words


def test_the_claims_are_tabulated_by_policy_and_load() -> None:
    found = (
        claim("average", "all", 0.5, 0.25, less_95=(0.2, 0.7), without_95=(0.125, 0.3)),
        claim("average", "light", 0.9, 0.75, windows=1, reactive_h=0.4, interruption_h=0.15, overlap_h=1.0),
        claim("lead:4", "all", None, 0.5, reactive_h=0.0, interruption_h=0.25),
        claim("lead:4", "light", 0.0, 1.0, reactive_h=0.0, interruption_h=0.0),
        claim("what-if", "all", 0.5, 0.25, link_nodes=1),
    )
    assert claims_table(compared(claims=found), 8).splitlines() == [
        "|  | policy | all loads: 10 windows, 6.00 h | light: 1 window, 0.40 h |",
        "|---|---|---|---|",
        "| published | `average` | 50 % (20 … 70) less; 25 % (12 … 30) without; overlap 0.75 h "
        "| -0.25 h; 75 % without; overlap 1.00 h |",
        "| baseline | `lead:4` | +0.25 h; 50 % without; overlap 0.75 h | +0.00 h; 100 % without; overlap 0.75 h |",
    ]
