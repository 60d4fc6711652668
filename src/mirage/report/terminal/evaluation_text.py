"""Evaluation on the terminal: progress while it runs, tables at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from mirage.provision.evaluation.candidate import BOUNDS
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.policy_score import CLASSES, EvaluationRow
from mirage.report.figures import links_words
from mirage.report.terminal.comparison_text import print_differences, print_months
from mirage.report.terminal.console_table import fits, print_table
from mirage.study.intervals import Interval
from mirage.study.play_trials import Progress as ProgressCallback

_PLAIN_WIDTH, _WIDE = 140, 120
_BOUNDS = {"light": "reactive up to 2 h", "medium": "2 to 12 h", "heavy": "more than 12 h"}


@contextmanager
def progress_bar(what: str) -> Iterator[ProgressCallback]:
    """Shows a progress bar on standard error; nothing if that is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def print_evaluation(
    evaluation: Evaluation, provenance: dict[str, Any], console: Console | None = None, *, by_month: bool = False
) -> None:
    """Prints a table for each link size and load class; the cheapest policy is bold.

    Args:
        by_month: Whether to print the months too.
    """
    if console is None:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=_PLAIN_WIDTH)
    conditions = "{windows} windows from {start}, protocol {protocol}, {discipline} on {nodes} nodes".format(
        **provenance
    )
    console.print(Text(f"{provenance['trace']}: {conditions}, settings {provenance['settings']}"))
    for nodes in evaluation.trials:
        for load in CLASSES:
            rows = [row for row in evaluation.rows if row.link_nodes == nodes and row.load == load]
            if rows:
                console.print()
                of_class = f"{load} load ({_BOUNDS[load]})" if load in _BOUNDS else "all loads"
                title = f"{links_words(nodes)}, {of_class}: {rows[0].windows} windows"
                console.print(Text(title, "bold"))
                _print_rows(console, rows, several=len(evaluation.costs) > 1)
    if by_month:
        print_months(console, evaluation)
    print_differences(console, evaluation, by_month=by_month)
    console.print()
    console.print(Text(f"hours per hand-over; brackets, where there is room: {evaluation.intervals}", "dim"))
    console.print(Text(f"gap closed: of the cost between reactive and the oracle; seed {provenance['seed']}", "dim"))


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
        _with(row.interruption_h, row.interruption_95 if intervals else None),
        _with(row.overlap_h, row.overlap_95 if intervals else None),
        f"{row.zero_share:.0%}",
        *more,
        _with(row.cost, row.cost_95 if intervals else None),
        "-" if row.gap_closed is None else f"{row.gap_closed:.0%}",
    ]


def _best(rows: Sequence[EvaluationRow], ratio: float | None) -> tuple[str, float | None]:
    """Returns the cheapest policy at a cost ratio that is not a bound."""
    real = [row for row in rows if row.policy not in BOUNDS and row.cost_ratio == ratio]
    return (min(real, key=lambda row: row.cost).policy, ratio) if real else ("", ratio)


def _with(mean: float, interval: Interval | None) -> str:
    return f"{mean:.2f}" if interval is None else f"{mean:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"
