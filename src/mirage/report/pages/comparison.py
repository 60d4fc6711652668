"""Comparisons on the page of an evaluation: policies by month, and paired differences."""

from __future__ import annotations

from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.score import ALL, Row
from mirage.report.figures import links_words
from mirage.report.page import CARDS, Cell, section, table
from mirage.report.terminal.comparison import at_cost, signed


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
    told = (
        f"Every policy minus {against}, window by window: below zero it is better. It is marked better or worse where "
        "the 95 % interval of the cost excludes zero."
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
    return section(heading, told, table(columns, cells, numbers_from=2, cards=len(cells) <= CARDS))


def _months_section(evaluation: Evaluation, rows: list[Row]) -> str:
    columns = ["policy", "windows", "", "interruption, h", "overlap, h", "cost", "gap closed"]
    cells: list[list[Cell]] = [
        [
            row.policy,
            _which(evaluation, row.load, row.month, row.cost_ratio),
            str(row.windows),
            f"{row.interruption_h:.2f}",
            f"{row.overlap_h:.2f}",
            f"{row.cost:.2f}",
            "–" if row.gap_closed is None else f"{row.gap_closed:.0%}",
        ]
        for row in rows
    ]
    heading = f"By month, {links_words(rows[0].link_nodes)}"
    told = "Windows by the month in which the link was submitted, UTC."
    return section(heading, told, table(columns, cells, numbers_from=2, cards=len(cells) <= CARDS))


def _which(evaluation: Evaluation, load: str, month: str, ratio: float | None) -> str:
    """Names the windows of a row."""
    which = month if month != ALL else "all" if load == ALL else f"{load} load"
    return f"{which}{at_cost(evaluation, ratio)}"
