"""The table of a sensitivity: one line for each case and scheduler."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from mirage.duration import HOUR_S
from mirage.report.terminal.console_table import plain_console, print_table
from mirage.schedule.compare.sensitivity import FEWEST_WORKLOADS, PairedRatio, Sensitivity


def print_sensitivity(found: Sensitivity, workloads: int, console: Console | None = None) -> None:
    """Prints both ratios of every scheduler to every reference, in every case."""
    console = console or plain_console()
    print_table(console, *sensitivity_cells(found), left=2)
    how = "geometric means over the workloads, with 95 % intervals"
    if workloads < FEWEST_WORKLOADS:
        how = f"without intervals, which need {FEWEST_WORKLOADS} workloads"
    console.print(Text(f"ratios: of the reference to the scheduler, above 1 is better; {how}", "dim"))


def sensitivity_cells(found: Sensitivity) -> tuple[list[str], list[list[str]]]:
    """Returns the names of columns and the cells; columns of zeros are left out."""
    rows = found.rows
    before = [None, *(row.assumed for row in rows[:-1])]
    columns = {
        "assumed": [
            "" if row.assumed == last else ", ".join(f"{key}={value:g}" for key, value in row.assumed) or "as given"
            for row, last in zip(rows, before)
        ],
        "scheduler": [row.scheduler for row in rows],
        "mean wait s": [f"{row.mean_wait_s:,.0f}" for row in rows],
        "mean JCT h": [f"{row.mean_jct_s / HOUR_S:.3f}" for row in rows],
    }
    for text in found.references:
        columns[f"wait, of {text}"] = [ratio_text(row.wait.get(text)) for row in rows]
        columns[f"JCT, of {text}"] = [ratio_text(row.jct.get(text)) for row in rows]
    for name, values in (
        ("lost GPU h", [row.lost_gpu_h for row in rows]),
        ("overhead GPU h", [row.overhead_gpu_h for row in rows]),
        ("breaches", [row.breaches for row in rows]),
        ("unmet server h", [row.unmet_server_h for row in rows]),
    ):
        if any(values):
            columns[name] = [f"{value:,.1f}" for value in values]
    return list(columns), [list(cells) for cells in zip(*columns.values())]


def ratio_text(ratio: PairedRatio | None) -> str:
    """Returns a ratio with its interval: ``1.25 (1.20-1.31)``."""
    if ratio is None or ratio.ratio is None:
        return "-"
    digits = 3 if ratio.ratio < 2 else 2
    if ratio.interval is None:
        return f"{ratio.ratio:.{digits}f}"
    low, high = ratio.interval
    return f"{ratio.ratio:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"
