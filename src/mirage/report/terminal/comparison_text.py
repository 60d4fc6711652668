"""Comparisons on the terminal: policies by month, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.policy_score import ALL, EvaluationRow
from mirage.report.figures import links_words
from mirage.report.terminal.console_table import fits, print_table
from mirage.study.intervals import Interval

_STYLES = {"better": "green", "worse": "red", "": ""}


def print_months(console: Console, evaluation: Evaluation) -> None:
    """Prints a table for each link size and cost: a row per policy, a column per month."""
    every = [row for row in evaluation.rows if row.load == ALL]
    for nodes in evaluation.trials:
        for ratio in dict.fromkeys(row.cost_ratio for row in every):
            rows = [r for r in (*evaluation.months, *every) if (r.link_nodes, r.cost_ratio) == (nodes, ratio)]
            months = list(dict.fromkeys(row.month for row in rows))
            cell = {(row.policy, row.month): _month_cell(row) for row in rows}
            head = [f"{month}: {next(r.windows for r in rows if r.month == month)} windows" for month in months]
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
                console.print(Text(f"{title}{at_cost(evaluation, ratio)}: {found[0].windows} windows", "bold"))
                _print(console, found)


def _print(console: Console, found: Sequence[Difference]) -> None:
    names = ["policy", "cost", "interruption h", "overlap h", ""]
    cells = [_cells(d, intervals=True) for d in found]
    if not fits(console, names, cells):
        cells = [_cells(d, intervals=False) for d in found]
    print_table(console, names, cells, styles=[_STYLES[d.verdict] for d in found])


def _cells(of: Difference, *, intervals: bool) -> list[str]:
    return [
        of.policy,
        signed(of.cost, of.cost_95 if intervals else None),
        signed(of.interruption_h, of.interruption_95 if intervals else None),
        signed(of.overlap_h, of.overlap_95 if intervals else None),
        of.verdict,
    ]


def _month_cell(row: EvaluationRow) -> str:
    gap = "-" if row.gap_closed is None else f"{row.gap_closed:.0%}"
    return f"{row.interruption_h:.2f}/{row.overlap_h:.2f} {row.cost:.2f} {gap}"


def signed(mean: float, interval: Interval | None) -> str:
    """Formats a difference with its sign, and its interval where there is one."""
    return f"{mean:+.2f}" if interval is None else f"{mean:+.2f} [{interval[0]:+.2f}, {interval[1]:+.2f}]"


def at_cost(evaluation: Evaluation, ratio: float | None) -> str:
    """Formats the cost ratio, where there are several; else an empty text."""
    if len(evaluation.costs) == 1:
        return ""
    return ", overlap free" if ratio is None else f", at {ratio:g}:1"
