"""Tables of results, from rows made by hand: each figure is in its column and row."""

from __future__ import annotations

from dataclasses import replace

from mirage.learn.training.comparison.method_comparison import MethodComparison, UnderLoad
from mirage.report.judgement.result_tables import (
    ResultsView,
    cheapest,
    main_cells,
    month_cells,
    real,
    seed_cells,
    table,
    under_load_cells,
)
from tests.support.made_up_results import compared, less, row

ROWS = (
    row("average", 9.0, zero_share=0.25), row("reactive", 12.0, overlap_h=0.0), row("what-if", 6.0, cost_95=(5.0, 7.5)),
    row("correction", 6.0), row("oracle", 1.0, interruption_h=0.125),
    row("average", 3.0, load="light"), row("what-if", 2.0, load="light"), row("oracle", 0.5, load="light"),
    row("average", 99.0, ratio=None), row("average", 88.0, nodes=1), row("oracle", 77.0, nodes=1),
)  # fmt: skip
PAIRED = (
    less("average", 3.0, 1.0), less("oracle", -5.0, None), less("average", 1.0, 2.0, load="light"),
    less("average", -7.0, None, ratio=None), less("average", -8.0, None, month="2024-03"),
)  # fmt: skip
GROUPS = {8: (("oracle",), ("average",), ("what-if", "correction"))}


def made(*differences: object, **changes: object) -> MethodComparison:
    months = tuple(
        row(policy, cost, month=month, windows=windows, interruption_h=cost / 2, overlap_h=cost / 4)
        for month, windows, costs in (("2024-03", 7, (8.0, 4.0, 2.0)), ("2024-02", 5, (6.0, 3.0, 1.0)))
        for policy, cost in zip(("average", "what-if", "oracle"), costs)
    )
    found = compared(*(differences or PAIRED), rows=ROWS)  # type: ignore[arg-type]
    return replace(found, evaluation=replace(found.evaluation, months=months), alike=GROUPS, **changes)  # type: ignore[arg-type]


def test_the_main_table() -> None:
    heads, rows = main_cells(ResultsView(made(), 8, 2.0))
    assert heads == [
        "", "policy", "interruption / overlap, h", "without interruption", "cost", "gap closed",
        "cost minus that of `what-if`",
    ]  # fmt: skip
    assert rows == [
        ["published", "`average`", "1.50 / 0.25", "25 %", "9.00", "34 % (30 … 40)", "**+3.00 (+2.00 … +4.00)**"],
        ["ours", "`what-if`, `correction`", "1.50 / 0.25", "62 %", "6.00 (5.00 … 7.50)", "34 % (30 … 40)", ""],
        ["bound", "`oracle`", "0.12 / 0.25", "62 %", "1.00", "34 % (30 … 40)", "-5.00"],
    ]


def test_in_light_load_hours_above_the_oracle_replace_the_gap() -> None:
    heads, rows = main_cells(ResultsView(made(), 8, 2.0), "light")
    assert heads[4:] == ["cost", "cost minus that of `oracle`, h", "cost minus that of `what-if`"]
    assert [[cells[1], *cells[4:]] for cells in rows] == [
        ["`average`", "3.00", "+2.50", "+1.00 (-1.00 … +3.00)"], ["`what-if`, `correction`", "2.00", "+1.50", ""],
        ["`oracle`", "0.50", "+0.00", ""],
    ]  # fmt: skip
    without = made(*PAIRED)
    rows_without = tuple(one for one in ROWS if one.policy != "oracle")
    bare = replace(
        without, evaluation=replace(without.evaluation, rows=rows_without, differences=()), alike={8: GROUPS[8][1:]}
    )
    heads, rows = main_cells(ResultsView(bare, 8, 2.0), "light")
    assert (heads[4:], rows[0][4:]) == (["cost"], ["3.00"])


def test_months_are_columns_in_order() -> None:
    heads, rows = month_cells(ResultsView(made(), 8, 2.0))
    assert heads == ["", "policy", "2024-02: 5 windows", "2024-03: 7 windows"]
    assert rows == [
        ["published", "`average`", "3.00 / 1.50", "4.00 / 2.00, -8.00"],
        ["ours", "`what-if`, `correction`", "1.50 / 0.75", "2.00 / 1.00"],
        ["bound", "`oracle`", "0.50 / 0.25", "1.00 / 0.50"],
    ]


def test_gains_under_load() -> None:
    found = (
        UnderLoad(row("what-if", 5.0, overlap_h=2.0), None, None, "", None, None, ""),
        UnderLoad(row("average", 5.0), 0.125, (0.05, 0.25), "better", -0.25, (-0.5, 0.0), ""),
        UnderLoad(row("average", 5.0, nodes=1), 0.5, None, "", 0.5, None, ""),
        UnderLoad(row("average", 5.0, ratio=None), 0.75, None, "", 0.75, None, ""),
    )
    heads, rows = under_load_cells(ResultsView(made(under_load=found), 8, 2.0))
    assert heads == [
        "", "policy", "interruption / overlap, h", "gap closed", "more than `what-if`", "the same over all windows"
    ]  # fmt: skip
    assert rows == [
        ["published", "`average`", "1.50 / 0.25", "34 % (30 … 40)", "**+12.5 (+5.0 … +25.0)**", "-25.0 (-50.0 … +0.0)"],
        ["ours", "`what-if`", "1.50 / 2.00", "34 % (30 … 40)", "", ""],
    ]
    alone = replace(made(under_load=found), evaluation=replace(made().evaluation, differences=()))
    heads, rows = under_load_cells(ResultsView(alone, 8, 2.0))
    assert (len(heads), [len(cells) for cells in rows]) == (4, [4, 4])


def test_the_costs_of_each_seed() -> None:
    seeds = {
        5: (row("what-if", 1.0), row("correction", 2.0), row("what-if", 9.0, nodes=1), row("what-if", 8.0, ratio=None)),
        6: (row("correction", 3.456), row("what-if", 4.0)),
    }
    heads, rows = seed_cells(ResultsView(made(seeds=seeds), 8, 2.0))
    assert heads == ["policy", "seed 5", "seed 6"]
    assert rows == [["`what-if`", "1.00", "4.00"], ["`correction`", "2.00", "3.46"]]
    assert table((heads, rows)).startswith("| policy | seed 5 | seed 6 |\n|---|---|---|\n| `what-if` | 1.00 | 4.00 |")


def test_the_cheapest_of_some_policies() -> None:
    view = ResultsView(made(), 8, 2.0)
    assert cheapest(view, ["average", "reactive", "missing"]) == "average"
    assert cheapest(view, ["reactive", "what-if", "average"]) == "what-if"
    assert cheapest(view, ["average", "what-if"], "light") == "what-if"
    assert cheapest(view, ["reactive"], "light") is None
    assert real(view) == ["average", "reactive", "xgboost-2023", "what-if", "correction", "lead:4"]
    assert (view.against, ResultsView(compared(), 8, 2.0).against) == ("what-if", None)
