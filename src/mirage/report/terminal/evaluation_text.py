"""Evaluations on the terminal: policies by load and month, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from mirage.duration import format_duration
from mirage.errors import quantity
from mirage.provision.evaluation.candidate import BOUNDS
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.paired import VERDICTS_NOTE, Difference
from mirage.provision.evaluation.policy_score import ALL, CLASSES, EvaluationRow
from mirage.report.figures import LOAD_WORDS, chain_words, gap_words, links_words, mean_words
from mirage.report.terminal.console_table import fits, plain_console, print_table
from mirage.study.intervals import Interval

VERDICT_STYLES = {"better": "green", "worse": "red", "": ""}


def print_months(console: Console, evaluation: Evaluation) -> None:
    """Prints a table for each link size and cost: a row per policy, a column per month."""
    every = [row for row in evaluation.rows if row.load == ALL]
    for nodes in evaluation.trials:
        for ratio in dict.fromkeys(row.cost_ratio for row in every):
            rows = [r for r in (*evaluation.months, *every) if (r.link_nodes, r.cost_ratio) == (nodes, ratio)]
            months = list(dict.fromkeys(row.month for row in rows))
            cell = {(row.policy, row.month): _month_cell(row) for row in rows}
            windows = [next(r.windows for r in rows if r.month == month) for month in months]
            head = [f"{month}: {quantity(number, 'window')}" for month, number in zip(months, windows, strict=True)]
            cells = [[policy, *(cell[policy, month] for month in months)] for policy in evaluation.policies]
            console.print()
            title = f"{links_words(nodes)} by month{at_cost(evaluation, ratio)}: interruption/overlap, cost, gap closed"
            console.print(Text(title, "bold"))
            print_table(console, ["policy", *head], cells)


def print_differences(console: Console, evaluation: Evaluation, *, by_month: bool) -> None:
    """Prints a table for each link size and cost: every policy minus the reference policy."""
    months = list(dict.fromkeys(d.month for d in evaluation.differences if d.month != ALL))
    shown = [ALL, *months] if by_month and len(months) > 1 else [ALL]
    for nodes in evaluation.trials:
        of_link = [d for d in evaluation.differences if (d.link_nodes, d.load) == (nodes, ALL)]
        for ratio in dict.fromkeys(d.cost_ratio for d in of_link):
            for month in shown:
                found = [d for d in of_link if (d.cost_ratio, d.month) == (ratio, month)]
                if not found:
                    continue
                when = "" if month == ALL else f", {month}"
                title = f"{links_words(nodes)}{when}, difference from {found[0].against}, window by window"
                console.print()
                console.print(
                    Text(f"{title}{at_cost(evaluation, ratio)}: {quantity(found[0].windows, 'window')}", "bold")
                )
                _print_paired(console, found)


def _print_paired(console: Console, found: Sequence[Difference]) -> None:
    names = ["policy", "cost", "interruption h", "overlap h", ""]
    cells = [_difference_cells(d, intervals=True) for d in found]
    if not fits(console, names, cells):
        cells = [_difference_cells(d, intervals=False) for d in found]
    print_table(console, names, cells, styles=[VERDICT_STYLES[d.verdict] for d in found])


def _difference_cells(of: Difference, *, intervals: bool) -> list[str]:
    return [
        of.policy,
        signed(of.cost, of.cost_95 if intervals else None),
        signed(of.interruption_h, of.interruption_95 if intervals else None),
        signed(of.overlap_h, of.overlap_95 if intervals else None),
        of.verdict,
    ]


def _month_cell(row: EvaluationRow) -> str:
    gap = gap_words(row.gap_closed, row.gap_closed_95)
    return f"{row.interruption_h:.2f}/{row.overlap_h:.2f} {row.cost:.2f} {gap}"


def signed(mean: float, interval: Interval | None) -> str:
    """Formats a difference with its sign, and its interval where there is one."""
    return f"{mean:+.2f}" if interval is None else f"{mean:+.2f} [{interval[0]:+.2f}, {interval[1]:+.2f}]"


def at_cost(evaluation: Evaluation, ratio: float | None) -> str:
    """Formats the cost ratio, where there are several; else an empty text."""
    if len(evaluation.costs) == 1:
        return ""
    return ", overlap free" if ratio is None else f", at {ratio:g}:1"


_WIDE = 120


def print_evaluation(
    evaluation: Evaluation, provenance: dict[str, Any], console: Console | None = None, *, by_month: bool = False
) -> None:
    """Prints a table for each link size and load class; the cheapest policy is bold.

    Args:
        by_month: Whether to print the months too.
    """
    console = console or plain_console()
    windows, size = quantity(provenance["windows"], "window"), quantity(provenance["nodes"], "node")
    every = f", one every {format_duration(provenance['every_s'])}" if provenance["windows"] > 1 else ""
    conditions = "{} from {start}{}, protocol {protocol}, {discipline} on {}".format(windows, every, size, **provenance)
    console.print(Text(f"{provenance['trace']}: {conditions}, settings {provenance['settings']}"))
    console.print(Text(chain_words(provenance)))
    for nodes in evaluation.trials:
        for load in CLASSES:
            rows = [row for row in evaluation.rows if row.link_nodes == nodes and row.load == load]
            if rows:
                console.print()
                of_class = f"{load} load ({LOAD_WORDS[load]})" if load in LOAD_WORDS else "all loads"
                title = f"{links_words(nodes)}, {of_class}: {quantity(rows[0].windows, 'window')}"
                console.print(Text(title, "bold"))
                _print_rows(console, rows, several=len(evaluation.costs) > 1)
    if by_month:
        print_months(console, evaluation)
    print_differences(console, evaluation, by_month=by_month)
    console.print()
    if evaluation.differences:
        console.print(Text(VERDICTS_NOTE, "dim"))
    console.print(Text(f"hours per hand-over; confidence intervals: {evaluation.intervals}", "dim"))
    console.print(
        Text(f"gap closed: of the cost between reactive and the oracle, - if unknown; seed {provenance['seed']}", "dim")
    )


def _print_rows(console: Console, rows: Sequence[EvaluationRow], *, several: bool) -> None:
    wide = console.width >= _WIDE
    ratio = ["cost ratio"] if several else []
    more = ["p95 int/ovl", "lead h"] if wide else []
    names = ["policy", *ratio, "interruption h", "overlap h", "x ≤ 0", *more, "cost", "gap closed"]
    best = {_best(rows, cost_ratio) for cost_ratio in {row.cost_ratio for row in rows}}
    styles = [
        "bold green" if (row.policy, row.cost_ratio) in best else "dim" if row.policy in BOUNDS else "" for row in rows
    ]
    cells = [_cells(row, several=several, wide=wide) for row in rows]
    if not fits(console, names, cells):
        cells = [_cells(row, several=several, wide=wide, intervals=False) for row in rows]
    print_table(console, names, cells, styles=styles)


def _cells(row: EvaluationRow, *, several: bool, wide: bool, intervals: bool = True) -> list[str]:
    ratio = ["free" if row.cost_ratio is None else f"{row.cost_ratio:g}:1"] if several else []
    more = [f"{row.interruption_p95_h:.1f}/{row.overlap_p95_h:.1f}", f"{row.lead_h:.1f}"] if wide else []
    return [
        row.policy,
        *ratio,
        mean_words(row.interruption_h, row.interruption_95 if intervals else None),
        mean_words(row.overlap_h, row.overlap_95 if intervals else None),
        f"{row.zero_share:.0%}",
        *more,
        mean_words(row.cost, row.cost_95 if intervals else None),
        gap_words(row.gap_closed, row.gap_closed_95),
    ]


def _best(rows: Sequence[EvaluationRow], ratio: float | None) -> tuple[str, float | None]:
    """Returns the cheapest policy at a cost ratio that is not a bound."""
    real = [row for row in rows if row.policy not in BOUNDS and row.cost_ratio == ratio]
    return (min(real, key=lambda row: row.cost).policy, ratio) if real else ("", ratio)
