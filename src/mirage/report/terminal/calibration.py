"""Calibration of a cluster on the terminal: what was found, and what each mechanism explains."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from mirage.calibration.capacity import outages, ran
from mirage.calibration.fidelity.judge import Fidelity
from mirage.calibration.fit import Slice
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.calibration.shares import ALL, PLAIN, Share, Waits
from mirage.calibration.think_times import answers, share_by_chance
from mirage.calibration.wait_causes import LIMIT, NODES, ORDER, UNEXPLAINED
from mirage.duration import HOUR_S, MINUTE_S, format_duration
from mirage.report.terminal.tables import print_table

_PLAIN_WIDTH = 110
_WORDS = {
    PLAIN: "nothing fitted",
    ALL: "all of it",
    "dip_s": "without capacity over time",
    "recorded": "without recorded priorities",
    "age": "without age",
    "fairshare": "without fair-share",
    "size": "without job size",
    "user_jobs": "without the limit of users",
    "turnover_s": "without time between jobs",
    "think_s": "without think times",
}
_CAUSES = {
    NODES: "fewer nodes were idle than it needed",
    LIMIT: "its user ran as many jobs as one may",
    ORDER: "idle nodes were kept for a job of higher priority",
    UNEXPLAINED: "nothing that accounts tell",
}


def print_calibration(
    site: Site,
    best: Mechanisms,
    rows: list[Share],
    waited: tuple[Waits, Waits],
    fitted: Slice,
    trace: str,
    console: Console | None = None,
) -> None:
    """Print the fitted mechanisms and the fidelity without each of them.

    Args:
        site: The cluster.
        best: The fitted mechanisms.
        rows: The fidelity of each choice of mechanisms.
        waited: What the jobs of the fitted slice and of the one after it waited for.
        fitted: The slice that was fitted to.
        trace: Its name.
        console: By default standard output.
    """
    if console is None:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=_PLAIN_WIDTH)
    console.print(Text.assemble("the cluster of ", (trace, "bold")))
    for line in found_words(site, best, fitted):
        console.print(Text(f"  {line}"))
    console.print()
    head = ["", "error", "rank corr.", "error", "rank corr.", "mean wait", "recorded"]
    console.print(Text("fitted slice (error, rank corr.), then the one after it", "dim"))
    print_table(console, head, [share_row(row) for row in rows])
    console.print()
    console.print(
        Text("error: of the mean wait over two weeks; rank corr.: of single jobs' waits, with its 95 % interval", "dim")
    )
    console.print()
    console.print(Text("what jobs waited for, hour by hour: fitted slice, then the one after it", "dim"))
    print_table(console, ["a job waited as", "recorded", "replayed", "recorded", "replayed"], list(wait_rows(waited)))
    floor = waited[1].unexplained_moving_average
    if floor is not None:
        console.print()
        console.print(
            f"What no mechanism seen in accounts explains is {floor:.0%} of the moving average of waits after the fit."
        )


def found_words(site: Site, best: Mechanisms, fitted: Slice) -> Iterator[str]:
    """Sentences on what was found in the accounts."""
    capacity = site.capacity(best.dip_s)
    low, high = int(capacity.nodes.min()), int(capacity.nodes.max())
    if best.dip_s is None:
        yield f"{high:,} nodes, always"
    else:
        dips = format_duration(best.dip_s)
        yield f"{low:,} to {high:,} nodes over time; dips of nodes in use up to {dips} filled in"
        gone = outages(site.jobs, capacity.times_s, capacity.nodes)
        yield f"{len(gone)} outages, {sum(one.end_s - one.start_s for one in gone) / HOUR_S:,.0f} hours in all"
    if best.user_jobs is not None:
        yield f"a user runs {best.user_jobs} jobs at once, at most"
    kind = "recorded at submission" if best.recorded else "computed"
    oldest = format_duration(round(site.settings.max_age_s))
    yield f"priorities {kind}; waiting {oldest} adds {best.age:,.0f}"
    if best.turnover_s:
        yield f"a node needs {best.turnover_s} s between two jobs"
    jobs = fitted.within(site.jobs)
    yield (
        f"{answers(jobs).share:.0%} of jobs follow a start or an end of the same user's within 20 minutes "
        f"(by chance {share_by_chance(jobs):.0%}); {'kept' if best.think_s else 'not kept'} in replays"
    )
    never = int((~ran(jobs)).sum())
    if never:
        yield f"{never:,} of {len(jobs):,} jobs were cancelled while they waited: replayed, but not compared"


def wait_rows(waited: tuple[Waits, Waits]) -> Iterator[list[str]]:
    """Causes of waits with their shares on both slices, recorded and replayed."""
    for cause, words in _CAUSES.items():
        yield [words, *(f"{told[cause]:.0%}" for found in waited for told in (found.recorded, found.replayed))]


def share_row(row: Share) -> list[str]:
    """A choice of mechanisms and its fidelity on both slices."""
    means_s = (row.judged.simulated_wait_s.mean, row.judged.recorded_wait_s.mean)
    return [_WORDS[row.name], *_figures(row.fitted), *_figures(row.judged), *map(_hours, means_s)]


def _hours(wait_s: float) -> str:
    return f"{wait_s / HOUR_S:.2f} h" if wait_s >= HOUR_S else f"{wait_s / MINUTE_S:.1f} min"


def _figures(found: Fidelity) -> tuple[str, str]:
    off, order = found.moving_average.mape, found.rank_correlation
    bounds = "" if order.interval is None else f" ({order.interval[0]:.2f}..{order.interval[1]:.2f})"
    return (
        "-" if off is None else f"{off:.1%}",
        "-" if order.value is None else f"{order.value:.2f}{bounds}",
    )
