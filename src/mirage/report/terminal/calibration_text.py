"""Calibration of a cluster on the terminal: findings, and the effect of each mechanism."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from mirage.calibration.calibration_result import Calibration
from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.mechanism_shares import ALL, HELD, PLAIN, MechanismFidelity, WaitCauseShares
from mirage.calibration.wait_causes import LIMIT, NODES, ORDER, UNEXPLAINED
from mirage.duration import HOUR_S, MINUTE_S
from mirage.report.terminal.calibration_facts import fact_words, facts, mechanism_words
from mirage.report.terminal.console_table import print_table
from mirage.report.terminal.fidelity_text import class_table

_PLAIN_WIDTH = 110
_WORDS = {
    PLAIN: "nothing fitted",
    ALL: "all mechanisms",
    "dip_s": "without capacity over time",
    "recorded": "without recorded priorities",
    "age": "without age",
    "fairshare": "without fair-share",
    "size": "without job size",
    "wfp": "without WFP",
    "shutdowns": "without shutdowns",
    "user_jobs": "without the limit of users",
    "turnover_s": "without time between jobs",
    "think_time_s": "without think times",
    HELD: "all, and unexplained holds (a bound)",
}
CAUSES = {
    NODES: "fewer nodes were idle than it needed",
    LIMIT: "its user was at the limit of running jobs",
    ORDER: "idle nodes were reserved for a job of higher priority",
    UNEXPLAINED: "no cause visible in accounts",
}
"""Causes of waits, as text."""


def print_calibration(found: Calibration, console: Console | None = None) -> None:
    """Prints the fitted mechanisms and the fidelity without each of them.

    Args:
        found: The calibration.
        console: By default standard output.
    """
    if console is None:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=_PLAIN_WIDTH)
    console.print(Text.assemble("the cluster of ", (found.trace, "bold")))
    for fact in facts(found):
        console.print(Text(f"  {fact_words(fact)}"), soft_wrap=not console.is_terminal)
    console.print()
    head = ["", "error", "rank corr.", "error", "rank corr.", "mean wait", "recorded"]
    console.print(Text("fitted slice (error, rank corr.), then the judged slice", "dim"))
    print_table(console, head, [share_row(row) for row in found.rows])
    console.print()
    console.print(Text("all mechanisms, on the judged slice: waits by class", "dim"))
    print_table(console, *class_table(found.whole.judged))
    console.print()
    console.print(
        Text("error: of the mean wait over two weeks; rank corr.: of single jobs' waits, with its 95 % interval", "dim")
    )
    console.print()
    console.print(Text("causes of waits, hour by hour: fitted slice, then the judged slice", "dim"))
    heads = ["a job waited as", "recorded", "replayed", "recorded", "replayed"]
    print_table(console, heads, list(wait_rows(found.waited)))
    floor = found.waited[1].unexplained_moving_average
    if floor is not None:
        console.print()
        console.print(
            f"{floor:.0%} of the moving average of waits after the fit has no explanation visible in accounts."
        )


def wait_rows(waited: tuple[WaitCauseShares, WaitCauseShares]) -> Iterator[list[str]]:
    """Yields causes of waits with their shares on both slices, recorded and replayed."""
    for cause, words in CAUSES.items():
        yield [words, *(f"{shares[cause]:.0%}" for found in waited for shares in (found.recorded, found.replayed))]


def share_words(row: MechanismFidelity) -> str:
    """Names a choice of mechanisms; one without its own text gets its identifier."""
    return _WORDS.get(row.name, f"without {mechanism_words(row.name)}")


def share_row(row: MechanismFidelity) -> list[str]:
    """Returns a choice of mechanisms and its fidelity on both slices."""
    means_s = (row.judged.simulated_wait_s.mean, row.judged.recorded_wait_s.mean)
    return [share_words(row), *_figures(row.fitted), *_figures(row.judged), *map(hours_words, means_s)]


def hours_words(wait_s: float) -> str:
    """Formats a wait in hours, a short one in minutes."""
    return f"{wait_s / HOUR_S:.2f} h" if wait_s >= HOUR_S else f"{wait_s / MINUTE_S:.1f} min"


def _figures(found: Fidelity) -> tuple[str, str]:
    off, order = found.moving_average.mape, found.rank_correlation
    bounds = "" if order.interval is None else f" ({order.interval[0]:.2f}..{order.interval[1]:.2f})"
    return (
        "-" if off is None else f"{off:.1%}",
        "-" if order.value is None else f"{order.value:.2f}{bounds}",
    )
