"""Demonstration on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from mirage.duration import HOUR_S
from mirage.report.terminal.console_table import Cell, plain_console, print_table
from mirage.report.terminal.trace_text import sparkline

if TYPE_CHECKING:
    from mirage.chains.demonstration import Demonstration


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Shows the current step on standard error; without a terminal, a line for each."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda what: console.print(f"mirage: {what}", highlight=False, markup=False, soft_wrap=True)
        return
    with console.status("") as status:
        yield lambda what: status.update(f"{what} …")


def print_demonstration(shown: Demonstration, out: str, console: Console | None = None) -> None:
    """Prints the cluster, and the losses and waste of each chain."""
    console = console or plain_console()
    load, waits = shown.load, shown.load.wait_s
    console.print(
        Text.assemble(
            (f"{shown.nodes} nodes", "bold"),
            f", {load.jobs:,} jobs in two weeks, {load.busy.mean() / shown.nodes:.0%} busy; waits: median "
            f"{waits.p50 / HOUR_S:.1f} h, 95 % up to {waits.p95 / HOUR_S:.1f} h, longest {waits.max / HOUR_S:.1f} h",
        )
    )
    width = min(console.width - 8, 84)
    for name, values, top, style in (
        ("busy", load.busy, shown.nodes, "green"),
        ("queued", load.queued, max(int(load.queued.max()), 1), "yellow"),
    ):
        means = [float(chunk.mean()) for chunk in np.array_split(values, width)]
        console.print(Text.assemble((f"{name:<8}", "dim"), (sparkline(means, float(top)), style)))
    console.print()
    _print_chains(shown, console)
    ratio = f"{shown.cost.interruption:g}:{shown.cost.overlap:g}"
    console.print()
    console.print(Text(f"cost: an hour of interruption to an hour of overlap as {ratio}; seed {shown.seed}", "dim"))
    console.print(Text.assemble("report: ", (out, "bold")))


def _print_chains(shown: Demonstration, console: Console) -> None:
    rows: list[list[Cell]] = []
    for (nodes, policy), run in shown.runs.items():
        longest_s = max([h.interruption_s for h in run.hand_overs], default=0)
        rows.append(
            [
                f"{nodes} node{'s' if nodes > 1 else ''}",
                policy,
                Text(f"{run.interruption_s / HOUR_S:.1f} h", "red" if run.interruption_s >= HOUR_S else "green"),
                f"{longest_s / HOUR_S:.1f} h",
                Text(f"{run.overlap_s / HOUR_S:.1f} h", "yellow" if run.overlap_s >= HOUR_S else "green"),
                f"{run.availability:.1%}",
                f"{run.cost(shown.cost):.1f}",
            ]
        )
    names = ["links of", "policy", "interruption", "longest", "overlap", "alive", "cost"]
    print_table(console, names, rows, left=2)
