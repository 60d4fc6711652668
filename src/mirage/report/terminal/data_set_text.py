"""Data set of hand-overs on the terminal: its windows by load class and month."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from mirage.learn.dataset.make_data_set import DataSetSummary
from mirage.learn.hand_overs import HandOvers
from mirage.provision.link_size import LOADS, load_class
from mirage.report.terminal.console_table import plain_console, print_table


def summary_of(rows: HandOvers) -> dict[str, Any]:
    """Returns plain values: numbers of rows, features, snapshots and windows.

    Windows are counted by link size, month and load class.
    """
    return {
        "rows": len(rows),
        "features": list(rows.names),
        "snapshots": len(rows.snapshots),
        "windows": [
            {"link_nodes": nodes, "month": month, **{load: count[load] for load in LOADS}}
            for (nodes, month), count in _windows(rows).items()
        ],
    }


def print_data_set(rows: HandOvers, made: DataSetSummary, console: Console | None = None) -> None:
    """Prints the content of a data set, and the cost of making it."""
    console = console or plain_console()
    cells = [
        (str(nodes), month, *(str(count[load]) for load in LOADS), str(count.total()))
        for (nodes, month), count in _windows(rows).items()
    ]
    print_table(console, ("nodes of a link", "month", *LOADS, "windows"), cells, left=2)
    reused = f", {made.reused} of them reused" if made.reused else ""
    console.print(
        Text(
            f"{len(rows):,} rows of {len(rows.names)} features, {len(rows.snapshots):,} snapshots, in {made.shards} "
            f"shards{reused}; {made.cpu_s / 60:.1f} CPU minutes"
        )
    )


def _windows(rows: HandOvers) -> dict[tuple[int, str], Counter[str]]:
    """Counts windows of each load class by link size and month, UTC."""
    edges = rows.windows()
    found: dict[tuple[int, str], Counter[str]] = {}
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist()):
        month = f"{datetime.fromtimestamp(int(rows.window_s[first]), UTC):%Y-%m}"
        count = found.setdefault((int(rows.link_nodes[first]), month), Counter())
        count[load_class(float(rows.outcome_s[last - 1]))] += 1
    return dict(sorted(found.items()))
