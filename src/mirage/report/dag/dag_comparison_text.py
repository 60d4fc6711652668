"""Comparisons of stage schedulers on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from mirage.dag.compare.dag_comparison import DagComparison
from mirage.dag.compare.dag_comparison_rows import PairedDifference
from mirage.errors import quantity
from mirage.report.terminal.console_table import plain_console, print_table

_HEADS = ("policy", "mean JCT", "p95 JCT", "makespan", "moves", "idle", "decision")


def print_comparison(comparison: DagComparison) -> None:
    """Prints a table for each setting, and one of the differences in mean completion time."""
    console = plain_console()
    for setting in dict.fromkeys(row.setting for row in comparison.rows):
        rows = [row for row in comparison.rows if row.setting == setting]
        executors, jobs = setting.split("/")
        seeds = quantity(rows[0].seeds, "seed")
        bound = f"no order ends before {rows[0].makespan_bound_s:,.0f} s"
        console.print(Text(f"{executors} executors, {jobs} jobs, {seeds}; {bound}", "bold"))
        cells = [
            [
                row.policy,
                f"{row.mean_jct_s:,.1f} s",
                f"{row.p95_jct_s:,.1f} s",
                f"{row.makespan_s:,.0f} s",
                f"{row.moves:,.0f}",
                f"{100 * row.idle_share:.1f} %",
                f"{row.decision_us:.2f} µs",
            ]
            for row in rows
        ]
        print_table(console, _HEADS, cells)
        _print_differences(console, comparison, setting)


def _print_differences(console: Console, comparison: DagComparison, setting: str) -> None:
    differences = [row for row in comparison.differences if row.setting == setting]
    if not differences:
        return
    cells = [
        [
            row.policy,
            f"{row.mean_jct_s:+,.1f} s",
            _interval(row, row.low_s, row.high_s),
            f"{row.percent:+.1f} %",
            f"{row.better_seeds}",
            f"{row.makespan_s:+,.1f} s",
            _interval(row, row.makespan_low_s, row.makespan_high_s),
        ]
        for row in differences
    ]
    console.print(Text(f"mean JCT minus that of {differences[0].against}, paired by seed; then the makespan", "dim"))
    heads = ("policy", "difference", "95 % interval", "percent", "faster on", "makespan", "95 % interval")
    print_table(console, heads, cells)
    console.print()


def _interval(row: PairedDifference, low_s: float | None, high_s: float | None) -> str:
    if low_s is None or high_s is None:
        return f"none: {row.no_interval}"
    return f"{low_s:+,.1f} … {high_s:+,.1f} s"
