"""Schedulers on the terminal: a table of all workloads, and the history of one job."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from mirage.duration import HOUR_S
from mirage.report.schedule.job_story import JobStory
from mirage.report.terminal.console_table import plain_console, print_table
from mirage.schedule.compare.gpu_comparison_row import MEAN, GpuComparisonRow


def print_rows(rows: Sequence[GpuComparisonRow], console: Console | None = None) -> None:
    """Prints a table; the least mean JCT of every workload is bold."""
    console = console or plain_console()
    best = {row.workload: row for row in sorted(rows, key=lambda row: -row.mean_jct_s)}
    styles = ["bold green" if best[row.workload] is row else "" for row in rows]
    print_table(console, *comparison_cells(rows), left=2, styles=styles)
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


def comparison_cells(rows: Sequence[GpuComparisonRow]) -> tuple[list[str], list[list[str]]]:
    """Returns the names of columns and the cells, without columns that are empty.

    Restarts are left out where each is that of a preemption.
    """
    digits = 3 if all(row.mean_jct_s < HOUR_S for row in rows) else 2
    columns: dict[str, list[str]] = {
        "workload": [row.workload for row in rows],
        "scheduler": [row.scheduler for row in rows],
    }
    for name, seconds in (
        ("mean JCT h", [row.mean_jct_s for row in rows]),
        ("p99 JCT h", [row.p99_jct_s for row in rows]),
        ("mean wait h", [row.mean_wait_s for row in rows]),
        ("makespan h", [row.makespan_s for row in rows]),
    ):
        columns[name] = [f"{one / HOUR_S:.{digits}f}" for one in seconds]
    columns["GPU h"] = [f"{row.gpu_h:,.1f}" for row in rows]
    if any(row.preemptions or row.restarts for row in rows):
        columns["preempted"] = [f"{row.preemptions:,.0f}" for row in rows]
    if any(row.restarts != row.preemptions for row in rows):
        columns["restarts"] = [f"{row.restarts:,.0f}" for row in rows]
    if any(row.lost_gpu_h for row in rows):
        columns["lost GPU h"] = [f"{row.lost_gpu_h:,.2f}" for row in rows]
    if any(row.lent_server_h for row in rows):
        columns["lent server h"] = [f"{row.lent_server_h:,.0f}" for row in rows]
        columns["breaches"] = [f"{row.breaches:,.0f}" for row in rows]
        columns["unmet server h"] = [f"{row.unmet_server_h:,.2f}" for row in rows]
    if any(row.late_requests is not None for row in rows):
        columns["late requests %"] = [_percent(row.late_requests) for row in rows]
        columns["without loans %"] = [_percent(row.late_unlent) for row in rows]
    for name, times_ms in (
        ("decision ms", [row.policy_ms for row in rows]),
        ("p95 ms", [row.policy_p95_ms for row in rows]),
    ):
        if any(ms is not None for ms in times_ms):
            columns[name] = ["-" if ms is None else f"{ms:.2f}" for ms in times_ms]
    return list(columns), [list(cells) for cells in zip(*columns.values())]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.4f}"
