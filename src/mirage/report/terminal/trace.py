"""A trace on the terminal: tables, and busy nodes over time as a line of bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mirage.duration import format_duration
from mirage.trace.read import Trace
from mirage.trace.statistics.occupancy import Occupancy
from mirage.trace.statistics.summary import Distribution, LimitUse, TraceStatistics, iso_utc
from mirage.trace.statistics.utilization import BusyNodes, covered_s
from mirage.trace.table import JobTable

_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_PLAIN_WIDTH = 110
_WIDE = 105
_MOST_NAMED = 8
_MOST_MONTHS = 24


def print_trace(trace: Trace, statistics: TraceStatistics, console: Console | None = None) -> None:
    """Print what a trace is like to standard output, as wide as the terminal, plain where it is none."""
    if console is None:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=_PLAIN_WIDTH)
    report = trace.report
    what = f"  {report.format}, {report.lines:,} {report.unit}s: {report.jobs:,} jobs, {report.steps:,} steps"
    console.print(Text.assemble((report.path, "bold"), what, f", {report.skipped_total:,} skipped"))
    console.print(Text(_when_and_who(statistics)))
    console.print()
    console.print(_distributions(statistics, wide=console.width >= _WIDE))
    if statistics.sizes:
        console.print()
        console.print(_sizes(statistics))
    console.print()
    for line in _shares(statistics):
        console.print(line)
    if statistics.busy is not None:
        console.print()
        _print_busy(trace.table, statistics.busy, console)


def _when_and_who(statistics: TraceStatistics) -> str:
    users = f"{statistics.users:,} users" if statistics.users else "users not recorded"
    first, last = statistics.first_submit_s, statistics.last_submit_s
    if first is None or last is None:
        return f"times of submission not recorded, {users}"
    return f"submitted {iso_utc(first)} to {iso_utc(last)} ({format_duration(last - first)}), {users}"


def _grid(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _distributions(statistics: TraceStatistics, *, wide: bool) -> Table:
    shown = ("mean", "p50", "p75", "p90", "p95", "p99", "max") if wide else ("p50", "p75", "p90", "p99", "max")
    table = _grid("", "jobs", *("median" if name == "p50" else name for name in shown))

    def add(name: str, values: Distribution | None, show: Callable[[float], str]) -> None:
        if values is None:
            table.add_row(name, "0", *("-" for _ in shown), style="dim")
        else:
            table.add_row(name, f"{values.count:,}", *(show(getattr(values, column)) for column in shown))

    add("wait", statistics.wait_s, _clock)
    add("run", statistics.run_s, _clock)
    add("limit", statistics.limit_s, _clock)
    add("run / limit", statistics.limit_use.use if statistics.limit_use else None, "{:.2f}".format)
    add("nodes", statistics.nodes, "{:,.4g}".format)
    add("GPUs", statistics.gpus, "{:,.4g}".format)
    return table


def _clock(seconds: float) -> str:
    return format_duration(round(seconds))


def _sizes(statistics: TraceStatistics) -> Table:
    table = _grid("nodes", "jobs", "share", "node-hours", "share")
    jobs = sum(size.jobs for size in statistics.sizes)
    hours = sum(size.node_hours for size in statistics.sizes)
    for size in statistics.sizes:
        name = str(size.nodes_to) if size.nodes_from == size.nodes_to else f"{size.nodes_from}-{size.nodes_to}"
        of_hours = f"{size.node_hours / hours:.1%}" if hours else "-"
        table.add_row(name, f"{size.jobs:,}", f"{size.jobs / jobs:.1%}", f"{size.node_hours:,.0f}", of_hours)
    return table


def _shares(statistics: TraceStatistics) -> list[Text]:
    lines = [_named("states", statistics.states)]
    if statistics.partitions:
        lines.append(_named("partitions", statistics.partitions))
    if statistics.limit_use is not None:
        lines.append(_limits(statistics.limit_use, statistics.unlimited))
    odd = {"zero duration": statistics.zero_duration, "never started": statistics.never_started}
    return [*lines, _named("oddities", {name: count for name, count in odd.items() if count} or {"none": 0})]


def _named(title: str, counts: Mapping[str, int]) -> Text:
    shown = [f"{name} {count:,}" if count else name for name, count in list(counts.items())[:_MOST_NAMED]]
    more = [f"{len(counts) - _MOST_NAMED} more"] if len(counts) > _MOST_NAMED else []
    return Text.assemble((f"{title:<12}", "dim"), ", ".join([*shown, *more]))


def _limits(limit_use: LimitUse, unlimited: int) -> Text:
    told = f"{limit_use.at_limit_share:.1%} of jobs use 99 % or more, {limit_use.over_limit:,} run over"
    return Text.assemble((f"{'limits':<12}", "dim"), told, f", {unlimited:,} unlimited" if unlimited else "")


def _print_busy(table: JobTable, busy: BusyNodes, console: Console) -> None:
    title = f": mean {busy.mean:,.1f}, peak {busy.peak:,}, the machine held about {busy.capacity:,}"
    console.print(Text.assemble(("busy nodes", "bold"), title))
    bars = _BARS if console.encoding.lower().startswith("utf") else _ASCII_BARS
    occupancy = Occupancy.of(table)
    first_s, last_s = covered_s(table, occupancy)
    width = min(console.width, last_s - first_s)
    edge_s = np.linspace(first_s, last_s, width + 1).round().astype(np.int64)
    console.print(Text(sparkline(occupancy.mean(edge_s).tolist(), busy.capacity, bars), "green"))
    left, right = ((iso_utc(instant) or "")[:10] for instant in (first_s, last_s))
    console.print(Text(left + right.rjust(max(width - len(left), len(right) + 1)), "dim"))
    if len(busy.months) <= _MOST_MONTHS:
        months = _grid("month", "mean", "peak")
        for month in busy.months:
            name = (iso_utc(month.begin_s) or "")[:7]
            months.add_row(name, f"{month.mean_nodes:,.1f}", f"{month.peak_nodes:,}")
        console.print(months)


def sparkline(values: list[float], top: float, bars: str = _BARS) -> str:
    """One character a value, as high as its share of ``top``; what exceeds it is as high as can be."""
    highest = len(bars) - 1
    return "".join(bars[min(round(max(value, 0) / top * highest), highest)] if top > 0 else bars[0] for value in values)
