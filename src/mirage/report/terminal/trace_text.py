"""Summary of a trace on the terminal: tables, and busy nodes over time as bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from mirage.duration import DAY_S, format_duration
from mirage.errors import one_line, quantity
from mirage.report.terminal.console_table import fits, plain_console, print_table
from mirage.trace.read_trace import Trace
from mirage.trace.statistics.occupancy import Occupancy
from mirage.trace.statistics.summary import TraceStatistics, ValueSummary, iso_utc
from mirage.trace.statistics.utilization import CAPACITY_SHARE, BusyNodes, covered_s
from mirage.trace.table import JobTable

_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_COLUMNS = (
    ("mean", "p50", "p75", "p90", "p95", "p99", "max"),
    ("p50", "p75", "p90", "p99", "max"),
    ("p50", "p90", "max"),
)
"""Columns of a distribution, on a wide terminal and on narrower ones."""

LONG_GAP_S = 90 * DAY_S
"""A longer time without a submission is an oddity: a wrong date, or traces that do not follow each other."""

_MOST_NAMED = 8
_MOST_MONTHS = 24


NamedDistribution = tuple[str, ValueSummary | None, Callable[[float], str]]
"""Name of a distribution, its values, and the format of a value."""

_MOST_BARS = 140
"""Maximum number of bars of busy nodes over time."""


def print_trace(trace: Trace, statistics: TraceStatistics, console: Console | None = None) -> None:
    """Prints the summary of a trace as wide as the terminal; fixed width without one."""
    console = console or plain_console()
    report = trace.report
    lines = report.lines - (report.header + report.comment + report.blank if report.unit == "record" else 0)
    what = (
        f"  {report.format}, {quantity(lines, report.unit)}: {quantity(report.jobs, 'job')}, "
        f"{quantity(report.steps, 'step')}"
    )
    merged = f", {report.merged:,} merged" if report.merged else ""
    console.print(Text.assemble((report.path, "bold"), what, merged, f", {report.skipped_total:,} skipped"))
    console.print(Text(_when_and_by_whom(statistics)))
    console.print()
    _print_distributions(statistics, console)
    if statistics.sizes:
        console.print()
        _print_sizes(statistics, console)
    console.print()
    for line in _shares(statistics):
        console.print(line)
    if statistics.busy is not None:
        console.print()
        _print_busy(trace.table, statistics.busy, console)


def _when_and_by_whom(statistics: TraceStatistics) -> str:
    users = quantity(statistics.users, "user") if statistics.users else "users not recorded"
    first, last = statistics.first_submit_s, statistics.last_submit_s
    if first is None or last is None:
        return f"times of submission not recorded, {users}"
    return f"submitted {iso_utc(first)} to {iso_utc(last)} ({format_duration(last - first)}), {users}"


def _print_distributions(statistics: TraceStatistics, console: Console) -> None:
    """Prints as many columns as fit; what is not recorded is pale."""
    distributions = _distributions(statistics)
    for shown in _COLUMNS:
        names = ["", "jobs", *("median" if name == "p50" else name for name in shown)]
        rows = [_distribution(name, values, show, shown) for name, values, show in distributions]
        if fits(console, names, rows) or shown is _COLUMNS[-1]:
            print_table(console, names, rows, styles=["" if values else "dim" for _, values, _ in distributions])
            return


def _distributions(statistics: TraceStatistics) -> list[NamedDistribution]:
    return [
        ("wait", statistics.wait_s, _clock),
        ("run", statistics.run_s, _clock),
        ("limit", statistics.limit_s, _clock),
        ("run / limit", statistics.limit_use.use if statistics.limit_use else None, "{:.2f}".format),
        ("nodes", statistics.nodes, "{:,.4g}".format),
        ("GPUs", statistics.gpus, "{:,.4g}".format),
    ]


def _distribution(
    name: str, values: ValueSummary | None, show: Callable[[float], str], columns: Sequence[str]
) -> list[str]:
    if values is None:
        return [name, "0", *("-" for _ in columns)]
    return [name, f"{values.count:,}", *(show(getattr(values, column)) for column in columns)]


def _clock(seconds: float) -> str:
    return format_duration(round(seconds))


def _print_sizes(statistics: TraceStatistics, console: Console) -> None:
    rows = []
    jobs = sum(size.jobs for size in statistics.sizes)
    hours = sum(size.node_hours for size in statistics.sizes)
    for size in statistics.sizes:
        name = str(size.nodes_to) if size.nodes_from == size.nodes_to else f"{size.nodes_from}-{size.nodes_to}"
        of_hours = f"{size.node_hours / hours:.1%}" if hours else "-"
        rows.append([name, f"{size.jobs:,}", f"{size.jobs / jobs:.1%}", f"{size.node_hours:,.0f}", of_hours])
    print_table(console, ["nodes", "jobs", "share", "node-hours", "share"], rows)


def _shares(statistics: TraceStatistics) -> list[Text]:
    lines = [_named("states", statistics.states)]
    if statistics.partitions:
        lines.append(_named("partitions", statistics.partitions))
    if statistics.limit_use is not None:
        use, unlimited = statistics.limit_use, statistics.unlimited
        shares = f"{use.at_limit_share:.1%} of jobs use 99 % or more, {use.over_limit:,} run over"
        others = f", {unlimited:,} unlimited" if unlimited else ""
        lines.append(Text.assemble((f"{'limits':<12}", "dim"), shares, others))
    odd = {
        "zero duration": statistics.zero_duration,
        "never started": statistics.never_started,
        "started before submission": statistics.starts_first,
    }
    if statistics.longest_gap_s is not None and statistics.longest_gap_s > LONG_GAP_S:
        odd["days in a row without a submission"] = statistics.longest_gap_s // DAY_S
    return [*lines, _named("oddities", {name: count for name, count in odd.items() if count} or {"none": 0})]


def _named(title: str, counts: Mapping[str, int]) -> Text:
    first = [(one_line(name), count) for name, count in list(counts.items())[:_MOST_NAMED]]
    shown = [f"{name} {count:,}" if count else name for name, count in first]
    more = [f"{len(counts) - _MOST_NAMED} more"] if len(counts) > _MOST_NAMED else []
    return Text.assemble((f"{title:<12}", "dim"), ", ".join([*shown, *more]))


def _print_busy(table: JobTable, busy: BusyNodes, console: Console) -> None:
    title = f": mean {busy.mean:,.1f}, peak {busy.peak:,}, inferred capacity about {busy.capacity:,}"
    if busy.capacity < busy.peak:
        title += f" ({CAPACITY_SHARE:.0%} of the time, no more were busy)"
    running = int(((table.start_s >= 0) & table.unfinished & (table.nodes > 0)).sum())
    without = f"; without {quantity(running, 'job')} that had not ended" if running else ""
    console.print(Text.assemble(("busy nodes", "bold"), title, without))
    bars = _BARS if console.encoding.lower().startswith("utf") else _ASCII_BARS
    occupancy = Occupancy.of(table)
    first_s, last_s = covered_s(table, occupancy)
    width = min(console.width, _MOST_BARS, last_s - first_s)
    edge_s = np.linspace(first_s, last_s, width + 1).round().astype(np.int64)
    console.print(Text(sparkline(occupancy.mean(edge_s).tolist(), busy.capacity, bars), "green"))
    left, right = ((iso_utc(instant) or "")[:10] for instant in (first_s, last_s))
    console.print(Text(left + right.rjust(max(width - len(left), len(right) + 1)), "dim"))
    if len(busy.months) <= _MOST_MONTHS:
        rows = [
            [(iso_utc(month.begin_s) or "")[:7], f"{month.mean_nodes:,.1f}", f"{month.peak_nodes:,}"]
            for month in busy.months
        ]
        print_table(console, ["month", "mean", "peak"], rows)


def sparkline(values: list[float], top: float, bars: str = _BARS) -> str:
    """Returns a line of bars, one character per value; values above ``top`` are cut to it."""
    highest = len(bars) - 1
    return "".join(bars[min(round(max(value, 0) / top * highest), highest)] if top > 0 else bars[0] for value in values)
