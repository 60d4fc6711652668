"""Report of an evaluation by whole chains as a file: a page, or a picture."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_output
from mirage.chains.chain_evaluation import ChainEvaluation, ChainRow, ChainTable
from mirage.duration import format_duration
from mirage.errors import quantity
from mirage.provision.evaluation.paired import Difference
from mirage.report.charts.interruption_chart import interruption_chart
from mirage.report.figures import mean_words, owner_words
from mirage.report.html_page import CARDS, Cell, chart, command, page, section
from mirage.report.html_page import table as html_table
from mirage.report.pages.evaluation_page import kind_of
from mirage.report.picture import MARGIN_PX, WIDE, stacked
from mirage.report.picture_file import write_picture
from mirage.report.terminal.chain_evaluation_text import VERDICTS_NOTE, table_words, unstarted_words
from mirage.report.terminal.evaluation_text import signed

_HEADING = "Interruption of chains"


def draw_chains(evaluation: ChainEvaluation, path: str, provenance: dict[str, Any]) -> None:
    """Draws the interruption under every policy into a file of the kind its name ends in.

    Args:
        evaluation: What became of the chains.
        path: The file: ``.html``, or a picture.
        provenance: As printed by ``mirage evaluate --chain-length … --json``.

    Raises:
        ConfigurationError: An unknown kind, matplotlib is missing, or the file cannot be written.
    """
    if kind_of(path) == ".html":
        write_output(path, chain_evaluation_page(evaluation, provenance))
        return
    panels = [
        (_heading(table), interruption_chart(table.rows, table.chains, WIDE - 2 * MARGIN_PX))
        for table in evaluation.tables()
    ]
    write_picture(stacked(panels, _HEADING, (_where(provenance), _how(provenance))), path)


def chain_evaluation_page(evaluation: ChainEvaluation, provenance: dict[str, Any]) -> str:
    """Returns the page: a chart and a table for each size of link and cost."""
    sections = []
    explained = "Means per chain."
    if provenance["windows"] > 1:
        explained += f" {VERDICTS_NOTE[0].upper()}{VERDICTS_NOTE[1:]}."
    for table in evaluation.tables():
        against = next((d.against for d in table.differences.values()), "")
        columns = ["policy", "interruption, h", "overlap, h", "links", "alive", "cost"]
        columns += [f"cost less {against}", ""] if table.differences else []
        cells = [_cells(row, table.differences) for row in table.rows]
        shown = html_table(columns, cells, cards=len(cells) <= CARDS)
        drawn = chart(partial(interruption_chart, table.rows, table.chains))
        sections.append(section(_heading(table), explained, drawn, shown))
    made = section("How this was made", f"Mirage {provenance['version']}.", command(str(provenance["command"])))
    return page(_HEADING, f"{_where(provenance)}. {_how(provenance)}.", *sections, made)


def _heading(table: ChainTable) -> str:
    unstarted = unstarted_words(table)
    return table_words(table).capitalize() + (f"; {unstarted}" if unstarted else "")


def _cells(row: ChainRow, found: dict[str, Difference]) -> list[Cell]:
    cells: list[Cell] = [row.policy, f"{row.interruption_h:.1f}", f"{row.overlap_h:.1f}", f"{row.links:.1f}"]
    cells += [f"{row.availability:.1%}", mean_words(row.cost, row.cost_95)]
    if found:
        of = found.get(row.policy)
        cells += ["", ""] if of is None else [signed(of.cost, of.cost_95), of.verdict]
    return cells


def _where(provenance: dict[str, Any]) -> str:
    windows, size = quantity(provenance["windows"], "window"), quantity(provenance["nodes"], "node")
    trace = Path(provenance["trace"]).name
    return f"{trace} under {provenance['discipline']} on {size}, {windows} from {provenance['start'][:10]}"


def _how(provenance: dict[str, Any]) -> str:
    limit, length = (format_duration(provenance[name]) for name in ("link_limit_s", "chain_s"))
    owner = owner_words(provenance["link_user"])
    return f"A chain of {length} in each, of links of {owner} for {limit}, up to {provenance['waiting_links']} waiting"
