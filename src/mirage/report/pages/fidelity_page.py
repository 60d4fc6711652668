"""Report of a simulation's fidelity as a file: a picture or a page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from mirage.atomic_file import write_output
from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.report.charts.fidelity_charts import levels_chart, moving_average_chart, span_s, wait_classes_chart
from mirage.report.figures import interval_words, number_words, percent_words
from mirage.report.html_page import chart, command, page, section, table, tiles
from mirage.report.picture import MARGIN_PX, WIDE, Picture, stacked
from mirage.report.picture_file import picture_kind
from mirage.report.svg import svg_file
from mirage.report.terminal.fidelity_text import (
    class_table,
    figures_words,
    intervals_words,
    jobs_words,
    month_table,
    moving_average_words,
    span_words,
)

KINDS = (".svg", ".html")
_HEADING = "Simulated and recorded"

ChartOfWidth = Callable[[float], Picture]


def check_kind(path: str) -> None:
    """Refuses a picture of an unsupported kind, before the work.

    Raises:
        ConfigurationError: The kind is not supported.
    """
    picture_kind(path, KINDS)


def draw_fidelity(fidelity: Fidelity, path: str, recorded: str, simulated: str, made_by: str) -> None:
    """Draws the waits and levels of both histories into a file of the kind its name ends in.

    Args:
        fidelity: The figures.
        path: The file, ``.svg`` or ``.html``.
        recorded: Name of the recorded trace.
        simulated: Name of the simulated one.
        made_by: The command, for the page.

    Raises:
        ConfigurationError: An unknown kind, or the file cannot be written.
    """
    if picture_kind(path, KINDS) == ".svg":
        text = fidelity_svg(fidelity, recorded, simulated)
    else:
        text = fidelity_page(fidelity, recorded, simulated, made_by)
    write_output(path, text)


def fidelity_svg(fidelity: Fidelity, recorded: str, simulated: str) -> str:
    """Returns a picture of all charts, one below the other, with its source."""
    panels = [("", draw(WIDE - 2 * MARGIN_PX)) for _, _, draw in _charts(fidelity)]
    source = f"{_pair(recorded, simulated)}, {span_words(fidelity)}, {fidelity.counts.compared:,} jobs"
    return svg_file(stacked(panels, _HEADING, [source]))


def fidelity_page(fidelity: Fidelity, recorded: str, simulated: str, made_by: str) -> str:
    """Returns a page with the main figures, all charts and all tables."""
    lead = f"{_pair(recorded, simulated)}: {'. '.join(jobs_words(fidelity))}."
    drawn = [section(heading, explained, chart(draw)) for heading, explained, draw in _charts(fidelity)]
    names, rows = class_table(fidelity)
    month_names, month_rows = month_table(fidelity)
    return page(
        _HEADING,
        lead,
        tiles(_tiles(fidelity)),
        *drawn,
        section("Waits by nodes and time limit", "Mean waits, and the distances of the distributions.",
                table(names, rows)),
        section("By month", "Jobs by the month in which they were submitted, UTC.", table(month_names, month_rows)),
        section("How this was made", _sentence(intervals_words(fidelity)), command(made_by)),
    )  # fmt: skip


def _pair(recorded: str, simulated: str) -> str:
    return f"{Path(simulated).name} compared with {Path(recorded).name}"


def _charts(fidelity: Fidelity) -> list[tuple[str, str, ChartOfWidth]]:
    """Returns heading, sentence and drawing of every chart that has data."""
    figures, span = dict(figures_words(fidelity)), span_s(fidelity)
    found: list[tuple[str, str, ChartOfWidth]] = [
        (
            "Mean waits over two weeks",
            _sentence(moving_average_words(fidelity.moving_average)),
            partial(moving_average_chart, fidelity.moving_average, span),
        )
    ]
    for heading, name, levels in (
        ("Busy nodes", "busy nodes", fidelity.busy_nodes),
        ("The queue", "waiting jobs", fidelity.waiting_jobs),
    ):
        if levels is not None:
            found.append((heading, _sentence(figures[name]), partial(levels_chart, levels, name, span)))
    found.append(
        (
            "Waits of single jobs",
            _sentence(f"single jobs: {figures['single jobs']}"),
            partial(wait_classes_chart, (*fidelity.classes, fidelity.whole)),
        )
    )
    return found


def _tiles(fidelity: Fidelity) -> list[tuple[str, str, str]]:
    average, ratio, rank = fidelity.moving_average, fidelity.mean_wait_ratio, fidelity.rank_correlation
    busy = fidelity.busy_nodes
    return [
        ("moving average of waits", percent_words(average.mape), "mean error, windows of 14 days"),
        ("mean wait", number_words(ratio.value), f"of the recorded{interval_words(ratio.interval)}"),
        ("single jobs", number_words(rank.value), f"rank correlation{interval_words(rank.interval)}"),
        ("starts", f"{fidelity.starts.within_1_h:.0%}", "within an hour of the recorded"),
        ("busy nodes", percent_words(busy.share_of_mean if busy else None), "mean error, hour by hour"),
    ]


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
