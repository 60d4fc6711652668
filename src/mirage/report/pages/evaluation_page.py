"""Report of an evaluation as a file: SVG or HTML, or a PNG drawn by matplotlib."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_output
from mirage.errors import quantity
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.frontier import Frontier, frontiers
from mirage.provision.evaluation.paired import VERDICTS_NOTE, Difference
from mirage.provision.evaluation.policy_score import ALL, CLASSES, EvaluationRow
from mirage.report.charts.frontier_chart import frontier_chart, frontier_name
from mirage.report.figures import chain_words, gap_words, links_words, mean_words
from mirage.report.html_page import CARDS, Cell, chart, command, page, section, table
from mirage.report.picture import MARGIN_PX, WIDE, Picture, stacked
from mirage.report.picture_file import BY_MATPLOTLIB, picture_kind, write_picture
from mirage.report.terminal.evaluation_text import at_cost, signed

_HEADING = "Interruption against overlap"
KINDS = (".svg", ".html", *BY_MATPLOTLIB)

LEAST_H = 0.1
"""A chart in which every mean interruption is shorter is an empty frame, so the page has only the table."""


def kind_of(path: str) -> str:
    """Returns the kind of picture that a file's name ends in.

    Raises:
        ConfigurationError: The kind is unknown, or needs matplotlib, which is missing.
    """
    return picture_kind(path, KINDS)


def draw_frontiers(evaluation: Evaluation, path: str, provenance: dict[str, Any]) -> None:
    """Draws the frontier of every link size into a file of the kind its name ends in.

    Args:
        provenance: As printed by ``mirage evaluate --json``.

    Raises:
        ConfigurationError: An unknown kind, matplotlib is missing, or the file cannot be written.
    """
    if kind_of(path) == ".html":
        write_output(path, evaluation_page(evaluation, provenance))
    else:
        write_picture(evaluation_picture(evaluation, provenance), path)


def evaluation_picture(evaluation: Evaluation, provenance: dict[str, Any]) -> Picture:
    """Returns a picture of an evaluation's frontiers, with their source."""
    panels = [
        (frontier_name(frontier), frontier_chart(frontier, WIDE - 2 * MARGIN_PX)) for frontier in frontiers(evaluation)
    ]
    return stacked(panels, _HEADING, (f"{_where(provenance)}, {_dates(evaluation)}", _costs(evaluation)))


def evaluation_page(evaluation: Evaluation, provenance: dict[str, Any]) -> str:
    """Returns the page of an evaluation: a frontier and a table for every load class."""
    shown = [(frontier, load) for load in CLASSES for frontier in frontiers(evaluation, load)]
    first = next((one for one in shown if _longest_h(one[0]) >= LEAST_H), None)
    sections = [_frontier_section(evaluation, *one, explain=one is first) for one in shown]
    lead = f"{_where(provenance)}, {_dates(evaluation)}. {_costs(evaluation)}"
    played = f"Protocol {provenance['protocol']}, {chain_words(provenance)}, seed {provenance['seed']}"
    settings = f"{played}, Mirage {provenance['version']}."
    text = f"{settings} Confidence intervals: {evaluation.intervals}."
    made = section("How this was made", text, command(str(provenance["command"])))
    return page(_HEADING, lead, *sections, *comparison_sections(evaluation), made)


def _frontier_section(evaluation: Evaluation, frontier: Frontier, load: str, *, explain: bool) -> str:
    rows = [r for r in evaluation.rows if (r.link_nodes, r.load) == (frontier.link_nodes, load)]
    several = len(evaluation.costs) > 1
    columns = ["policy", *(["cost ratio"] if several else []), "interruption, h", "overlap, h"]
    columns += ["without interruption", "mean cost, h" if _in_hours(evaluation) else "mean cost", "gap closed"]
    of_load = "All loads" if load == "all" else f"{load.capitalize()} load"
    heading = f"{of_load}, {links_words(frontier.link_nodes)}"
    explained = (
        "The grey line is every constant lead; a point below and left of it has lower means than any of them. Bars and "
        "brackets are 95 % intervals, where there are enough windows: where they overlap, the order may be chance."
    )
    if several:
        explained += " A ratio at a point is the configured cost of an hour of interruption, in hours of overlap."
    cells = [_cells(row, several=several) for row in rows]
    shown = table(columns, cells, cards=len(cells) <= CARDS)
    if (longest_h := _longest_h(frontier)) < LEAST_H:
        little = f"Interruptions are at most {longest_h:.2f} h on average, so there is little to gain and no chart."
        return section(heading, little, shown)
    return section(heading, explained if explain else "", chart(partial(frontier_chart, frontier)), shown)


def _longest_h(frontier: Frontier) -> float:
    """Returns the longest mean interruption, of a policy or a constant lead."""
    points = (*frontier.leads, *(point for series in frontier.series for point in series.points))
    return max(point.interruption_h for point in points)


def _cells(row: EvaluationRow, *, several: bool) -> list[Cell]:
    ratio = ["free" if row.cost_ratio is None else f"{row.cost_ratio:g}:1"] if several else []
    return [
        row.policy,
        *ratio,
        mean_words(row.interruption_h, row.interruption_95),
        mean_words(row.overlap_h, row.overlap_95),
        f"{row.zero_share:.0%}",
        mean_words(row.cost, row.cost_95),
        gap_words(row.gap_closed, row.gap_closed_95),
    ]


def _where(provenance: dict[str, Any]) -> str:
    trace = Path(provenance["trace"]).name
    nodes, windows = quantity(provenance["nodes"], "node"), quantity(provenance["windows"], "window")
    return f"{trace} under {provenance['discipline']} on {nodes}, {windows}"


def _dates(evaluation: Evaluation) -> str:
    """Returns the dates of the first and the last submission."""
    instants = [trial.episode.submitted_s for trials in evaluation.trials.values() for trial in trials]
    days = [datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d") for at_s in (min(instants), max(instants))]
    first, last = days
    return first if first == last else f"{first} to {last}"


def _costs(evaluation: Evaluation) -> str:
    """Describes the unit of cost."""
    if len(evaluation.costs) > 1:
        ratios = [f"{cost.interruption:g}:{cost.overlap:g}" for cost in evaluation.costs]
        return f"Cost of an hour of interruption to one of overlap: {', '.join(ratios[:-1])} or {ratios[-1]}."
    (cost,) = evaluation.costs
    unit = " in hours of overlap" if _in_hours(evaluation) else ""
    return f"Cost{unit}: {cost.interruption:g} for an hour of interruption, {cost.overlap:g} for one of overlap."


def _in_hours(evaluation: Evaluation) -> bool:
    """Whether costs are in hours of overlap: an hour of it costs 1."""
    return all(cost.overlap == 1 for cost in evaluation.costs)


def comparison_sections(evaluation: Evaluation) -> list[str]:
    """Returns sections per link size: differences, if any, and months, if more than one."""
    found = []
    for nodes in evaluation.trials:
        of_link = [d for d in evaluation.differences if d.link_nodes == nodes]
        if of_link:
            found.append(_differences_section(evaluation, of_link))
        months = [row for row in evaluation.months if row.link_nodes == nodes]
        if len({row.month for row in months}) > 1:
            found.append(_months_section(evaluation, months))
    return found


def _differences_section(evaluation: Evaluation, of_link: list[Difference]) -> str:
    against, nodes = of_link[0].against, of_link[0].link_nodes
    several = len({d.month for d in of_link}) > 2
    shown = [d for d in of_link if d.month == ALL or several]
    explained = (
        f"Every policy minus {against}, window by window: below zero it is better. {VERDICTS_NOTE.capitalize()}."
    )
    columns = ["policy", "windows", "", "cost", "interruption, h", "overlap, h", ""]
    cells: list[list[Cell]] = [
        [
            d.policy,
            _which(evaluation, d.load, d.month, d.cost_ratio),
            str(d.windows),
            signed(d.cost, d.cost_95),
            signed(d.interruption_h, d.interruption_95),
            signed(d.overlap_h, d.overlap_95),
            d.verdict,
        ]
        for d in shown
    ]
    heading = f"Against {against}, {links_words(nodes)}"
    return section(heading, explained, table(columns, cells, numbers_from=2, cards=len(cells) <= CARDS))


def _months_section(evaluation: Evaluation, rows: list[EvaluationRow]) -> str:
    columns = ["policy", "windows", "", "interruption, h", "overlap, h", "cost", "gap closed"]
    cells: list[list[Cell]] = [
        [
            row.policy,
            _which(evaluation, row.load, row.month, row.cost_ratio),
            str(row.windows),
            f"{row.interruption_h:.2f}",
            f"{row.overlap_h:.2f}",
            f"{row.cost:.2f}",
            gap_words(row.gap_closed, row.gap_closed_95),
        ]
        for row in rows
    ]
    heading = f"By month, {links_words(rows[0].link_nodes)}"
    explained = "Windows by the month in which the link was submitted, UTC."
    return section(heading, explained, table(columns, cells, numbers_from=2, cards=len(cells) <= CARDS))


def _which(evaluation: Evaluation, load: str, month: str, ratio: float | None) -> str:
    """Names the windows of a row."""
    which = month if month != ALL else "all" if load == ALL else f"{load} load"
    return f"{which}{at_cost(evaluation, ratio)}"
