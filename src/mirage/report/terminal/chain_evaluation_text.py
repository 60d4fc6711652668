"""Evaluations by whole chains on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from mirage.chains.chain_evaluation import ChainEvaluation, ChainRow, ChainTable
from mirage.duration import format_duration
from mirage.errors import quantity
from mirage.provision.evaluation.candidate import ORACLE
from mirage.provision.evaluation.paired import Difference
from mirage.report.figures import links_words, mean_words, owner_words
from mirage.report.terminal.console_table import fits, plain_console, print_table
from mirage.report.terminal.evaluation_text import VERDICT_STYLES, signed

VERDICTS_NOTE = (
    "intervals: 95 %, Student's t over windows; better, worse: also after a correction for the policies of the table "
    "(Benjamini and Hochberg)"
)


def print_chain_evaluation(
    evaluation: ChainEvaluation, provenance: dict[str, Any], console: Console | None = None
) -> None:
    """Prints a table for each size of link and cost, with differences from one policy."""
    console = console or plain_console()
    windows, size = quantity(provenance["windows"], "window"), quantity(provenance["nodes"], "node")
    length = format_duration(provenance["chain_s"])
    conditions = "{} from {start}, a chain of {} in each, {discipline} on {}".format(
        windows, length, size, **provenance
    )
    console.print(Text(f"{provenance['trace']}: {conditions}, settings {provenance['settings']}"))
    most = provenance["waiting_links"]
    limit = format_duration(provenance["link_limit_s"])
    console.print(
        Text(f"links of {owner_words(provenance['link_user'])} for {limit}, up to {most} of which wait at once")
    )
    for table in evaluation.tables():
        console.print()
        console.print(Text(table_words(table), "bold"))
        _print_rows(console, table.rows, table.differences)
        if unstarted := unstarted_words(table):
            console.print(Text(unstarted))
    console.print()
    note = "hours per chain; > limit: interruption after waits longer than a link may run; alive: share of the time"
    console.print(Text(note, "dim"))
    if provenance["windows"] > 1:
        console.print(Text(VERDICTS_NOTE, "dim"))


def table_words(table: ChainTable) -> str:
    """Formats what the rows of a table have in common: the size of the links, and the cost."""
    ratio = table.rows[0].cost_ratio
    at = "overlap free" if ratio is None else f"an hour of interruption costs {ratio:g} of overlap"
    return f"{links_words(table.rows[0].link_nodes)}, {at}"


def unstarted_words(table: ChainTable) -> str:
    """Formats a warning on chains of which no link has started; empty where there is none."""
    unstarted = max(row.unstarted for row in table.rows)
    if not unstarted:
        return ""
    return f"no link started in {quantity(unstarted, 'window')}: such a chain has no interruption and no cost"


def _print_rows(console: Console, rows: list[ChainRow], found: dict[str, Difference]) -> None:
    names = ["policy", "interruption h", "> limit", "overlap h", "links", "alive", "cost"]
    if found:
        names += [f"less {next(iter(found.values())).against}", ""]
    cheapest = min((row for row in rows if row.policy != ORACLE), key=lambda row: row.cost, default=rows[0]).policy
    styles = [
        "dim"
        if row.policy == ORACLE
        else "bold green"
        if row.policy == cheapest
        else VERDICT_STYLES[found[row.policy].verdict if row.policy in found else ""]
        for row in rows
    ]
    cells = [_cells(row, found, intervals=True) for row in rows]
    if not fits(console, names, cells):
        cells = [_cells(row, found, intervals=False) for row in rows]
    print_table(console, names, cells, styles=styles)


def _cells(row: ChainRow, found: dict[str, Difference], *, intervals: bool) -> list[str]:
    cells = [
        row.policy,
        f"{row.interruption_h:.1f}",
        f"{row.beyond_limit_h:.1f}",
        f"{row.overlap_h:.1f}",
        f"{row.links:.1f}",
        f"{row.availability:.1%}",
        mean_words(row.cost, row.cost_95 if intervals else None),
    ]
    if found:
        of = found.get(row.policy)
        cells += ["", ""] if of is None else [signed(of.cost, of.cost_95 if intervals else None), of.verdict]
    return cells
