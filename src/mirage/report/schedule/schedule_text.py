"""Schedulers on the terminal: a table of all workloads, and the history of one job."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from mirage.duration import HOUR_S
from mirage.report.schedule.job_story import JobStory
from mirage.report.terminal.console_table import plain_console, print_table
from mirage.schedule.compare.gpu_comparison_row import MEAN, GpuComparisonRow

NAMES = (
    "workload",
    "scheduler",
    "mean JCT h",
    "p99 JCT h",
    "mean wait h",
    "makespan h",
    "GPU h",
    "preempted",
    "restarts",
    "lost GPU h",
    "decision ms",
    "p95 ms",
)


def print_rows(rows: Sequence[GpuComparisonRow], console: Console | None = None) -> None:
    """Prints a table; the least mean JCT of every workload is bold."""
    console = console or plain_console()
    best = {row.workload: row for row in sorted(rows, key=lambda row: -row.mean_jct_s)}
    styles = ["bold green" if best[row.workload] is row else "" for row in rows]
    print_table(console, NAMES, [cells_of(row) for row in rows], left=2, styles=styles)
    if any(row.workload == MEAN for row in rows):
        console.print(Text(f"{MEAN}: over the workloads, with equal weights", "dim"))


def print_story(story: JobStory, console: Console | None = None) -> None:
    """Prints the history of one job, with reasons."""
    console = console or plain_console()
    console.print(Text(f"job {story.name}: {story.summary}", "bold"))
    rows = [
        (f"{m.time_s:,.0f}", m.what, m.where, m.why, "" if m.estimate_s is None else f"{m.estimate_s:,.0f}")
        for m in story.moments
    ]
    print_table(console, ("second", "what", "where", "why", "expected end"), rows, left=4)


def cells_of(row: GpuComparisonRow) -> list[str]:
    """Returns the cells of a row, as on the terminal."""
    hours = (row.mean_jct_s, row.p99_jct_s, row.mean_wait_s, row.makespan_s)
    return [
        row.workload,
        row.scheduler,
        *(f"{seconds / HOUR_S:.3f}" for seconds in hours),
        f"{row.gpu_h:,.1f}",
        f"{row.preemptions:,.0f}",
        f"{row.restarts:,.0f}",
        f"{row.lost_gpu_h:,.2f}",
        *("-" if ms is None else f"{ms:.2f}" for ms in (row.policy_ms, row.policy_p95_ms)),
    ]
