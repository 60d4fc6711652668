"""Fidelity of a simulation on the terminal: figures, then tables by class and by month."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mirage.calibration.fidelity.correlation import Estimate
from mirage.calibration.fidelity.hourly_levels import HourlyLevels
from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.fidelity.moving_average import MovingAverage
from mirage.calibration.fidelity.wait_classes import WaitClass
from mirage.duration import DAY_S, format_duration
from mirage.errors import quantity
from mirage.report.terminal.console_table import plain_console, print_table
from mirage.trace.statistics.summary import ValueSummary, iso_utc


def print_fidelity(fidelity: Fidelity, recorded: str, simulated: str, console: Console | None = None) -> None:
    """Prints how well a simulation agrees with the record; fixed width without a terminal.

    Args:
        fidelity: The figures.
        recorded: Name of the recorded trace.
        simulated: Name of the simulated one.
        console: By default standard output.
    """
    console = console or plain_console()
    console.print(Text.assemble((simulated, "bold"), " compared with ", (recorded, "bold")))
    for line in jobs_words(fidelity):
        console.print(Text(line))
    console.print()
    waits = [("recorded", fidelity.recorded_wait_s), ("simulated", fidelity.simulated_wait_s)]
    print_table(console, ["wait", "mean", "median", "75 %", "95 %", "longest"], [_wait_row(*wait) for wait in waits])
    console.print()
    figures = Table(box=None, show_header=False, pad_edge=False)
    figures.add_column(style="dim", no_wrap=True)
    for name, figure in figures_words(fidelity):
        figures.add_row(name, Text(figure))
    console.print(figures)
    for title, (names, rows) in {"waits by class": class_table(fidelity), "by month": month_table(fidelity)}.items():
        console.print()
        console.print(Text(title, "bold"))
        print_table(console, names, rows)
    console.print()
    console.print(Text(intervals_words(fidelity), "dim"))


def jobs_words(fidelity: Fidelity) -> Iterator[str]:
    """Yields sentences on the jobs that are compared, and on all others."""
    counts = fidelity.counts
    yield f"{span_words(fidelity)}: {quantity(counts.compared, 'job')} compared of {counts.recorded:,} recorded"
    reasons = {
        "only recorded": counts.only_recorded,
        "only simulated": counts.only_simulated,
        "in both, but without a recorded wait": counts.recorded_wait_unknown,
        "in both, but never started in the simulation": counts.simulated_wait_unknown,
    }
    left_out = [f"{count:,} {which}" for which, count in reasons.items() if count]
    if left_out:
        yield f"left out: {', '.join(left_out)}"
    if fidelity.shift_s:
        yield f"the two clocks are {format_duration(abs(fidelity.shift_s))} apart; simulated times are shifted by this"
    if counts.submitted_apart:
        doubt = "; is it another trace?" if counts.submitted_apart == counts.compared else ""
        jobs = quantity(counts.submitted_apart, "job")
        yield f"submitted at different times: {jobs}; waits count from each one{doubt}"


def span_words(fidelity: Fidelity) -> str:
    """Formats the span of submissions: ``submitted 2023-02-01 to 2023-03-31``."""
    first, last = ((iso_utc(instant_s) or "")[:10] for instant_s in (fidelity.from_s, fidelity.until_s - 1))
    return f"submitted {first}" if first == last else f"submitted {first} to {last}"


def figures_words(fidelity: Fidelity) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each figure."""
    yield "moving average", moving_average_words(fidelity.moving_average)
    yield "mean wait", f"{with_interval(fidelity.mean_wait_ratio)} of the recorded"
    yield (
        "single jobs",
        f"rank correlation {with_interval(fidelity.rank_correlation)}, Pearson's {with_interval(fidelity.pearson)}",
    )
    starts = fidelity.starts
    yield (
        "starts",
        f"off by {clock(starts.mean_absolute_s)} in the mean, {clock(starts.median_absolute_s)} in the median; "
        f"{starts.within_60_s:.1%} within 60 s, {starts.within_10_min:.1%} within 10 min, "
        f"{starts.within_1_h:.1%} within 1 h",
    )
    yield "busy nodes", levels_words(fidelity.busy_nodes)
    yield "waiting jobs", levels_words(fidelity.waiting_jobs)


def moving_average_words(found: MovingAverage) -> str:
    """Describes the error of the moving average."""
    days = found.window_s // DAY_S
    few = f"with fewer than {found.fewest_jobs} jobs"
    reasons = {few: found.too_few_jobs, "without a recorded wait": found.no_wait}
    counted = ", ".join(f"{count} {why}" for why, count in reasons.items() if count)
    left_out = f"; left out: {counted}" if counted else ""
    if found.mape is None or found.bias is None or found.largest is None:
        return f"none: there is no window of {days} days to compare{left_out}"
    return (
        f"off by {found.mape:.1%} over {len(found.windows)} windows of {days} days "
        f"({found.bias:+.1%} in the mean, {found.largest:.1%} at most){left_out}"
    )


def levels_words(levels: HourlyLevels | None) -> str:
    """Describes a recorded and a simulated level."""
    if levels is None:
        return "not recorded"
    share = "" if levels.share_of_mean is None else f" ({levels.share_of_mean:.1%} of the mean)"
    return (
        f"{levels.recorded_mean:,.1f} recorded, {levels.simulated_mean:,.1f} simulated; hour by hour off by "
        f"{levels.mean_absolute_difference:,.1f}{share}, correlation {_number(levels.correlation)}"
    )


def class_table(fidelity: Fidelity) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows of the waits by class, all jobs last."""
    names = ["nodes, limit", "jobs", "recorded", "simulated", "distance h", "KS", "rank correlation"]
    return names, [_class_row(one) for one in (*fidelity.classes, fidelity.whole)]


def _class_row(one: WaitClass) -> list[str]:
    return [
        one.name,
        f"{one.jobs:,}",
        clock(one.recorded_wait_s),
        clock(one.simulated_wait_s),
        f"{one.wasserstein_h:.2f}",
        f"{one.kolmogorov_smirnov:.2f}",
        _number(one.rank_correlation),
    ]


def month_table(fidelity: Fidelity) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows of the months."""
    names = ["month", "jobs", "recorded", "simulated", "starts off by", "rank correlation", "Pearson", "nodes off by"]
    rows = [
        [
            one.month,
            f"{one.jobs:,}",
            clock(one.recorded_wait_s),
            clock(one.simulated_wait_s),
            clock(one.mean_absolute_error_s),
            _number(one.rank_correlation),
            _number(one.pearson),
            _number(one.busy_difference, 1),
        ]
        for one in fidelity.months
    ]
    return names, rows


def intervals_words(fidelity: Fidelity) -> str:
    """Explains the intervals and the columns."""
    drawn = f"brackets: 95 %, from a bootstrap over whole {fidelity.resampled}s" if fidelity.resampled else ""
    none = "no intervals: they need jobs on at least eight days"
    return f"{drawn or none}; distance: mean hours between the sorted waits; KS: largest gap of the distributions"


def with_interval(estimate: Estimate) -> str:
    """Formats a figure, with its interval where it has one."""
    if estimate.value is None or estimate.interval is None:
        return _number(estimate.value)
    low, high = estimate.interval
    return f"{estimate.value:.2f} [{low:.2f}, {high:.2f}]"


def _wait_row(name: str, waits: ValueSummary) -> list[str]:
    return [name, *(clock(value) for value in (waits.mean, waits.p50, waits.p75, waits.p95, waits.max))]


def clock(seconds: float) -> str:
    """Formats seconds as Slurm does."""
    return format_duration(round(seconds))


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
