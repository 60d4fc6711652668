"""A chain in the terminal: a bar a link on one time axis, gaps and overlaps marked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from mirage.duration import format_duration
from mirage.provision.chain_run import ChainRun, LinkRecord
from mirage.trace.table import MISSING

_LAST_LINKS = 20


def print_chain(run: ChainRun, facts: Mapping[str, Any], decision: Any) -> None:
    """Print how a chain stands.

    Args:
        facts: As ``mirage chain list --json`` gives them.
        decision: The last one, or None.
    """
    console = Console(highlight=False)
    console.print(f"[bold]{facts['chain']}[/bold]  {facts['state']}, policy {facts['policy']}" + _why(facts))
    shown = run.links[-_LAST_LINKS:]
    if len(shown) < len(run.links):
        console.print(f"({len(run.links) - len(shown)} earlier links are not drawn)", style="dim")
    if shown:
        begin_s, end_s = shown[0].submitted_s, max(run.until_s, *(link.ends_s for link in shown))
        width = max(console.width - 34, 20)
        for before, link in zip((None, *shown), shown):
            console.print(_bar(link, before, begin_s, max(end_s, begin_s + 1), run.until_s, width))
        console.print(Text(f"{'':22}{_clock(begin_s)}{_clock(end_s):>{width - 11}}", style="dim"))
    lost = format_duration(run.interruption_s)
    console.print(
        f"interrupted {lost}, held twice {format_duration(run.overlap_s)}, alive {run.availability:.2%} of the time"
    )
    if decision is not None:
        console.print(f"last decision {_clock(decision.time_s)}: {decision.reason}")


def _bar(link: LinkRecord, before: LinkRecord | None, begin_s: int, end_s: int, now_s: int, width: int) -> Text:
    """A line: number and job, waiting as dots, running as a bar, the gap before it in red."""

    def column(at_s: int) -> int:
        return min(max(round((at_s - begin_s) / (end_s - begin_s) * width), 0), width)

    started = link.started_s != MISSING
    asked, start = column(link.submitted_s), column(link.started_s if started else now_s)
    end = max(column(link.ends_s), start + 1) if started else start
    cells = [" "] * width
    styles = [""] * width
    for k in range(asked, min(start, width)):
        cells[k], styles[k] = "·", "yellow"
    for k in range(start, min(end, width)):
        cells[k], styles[k] = "█", "green" if k < column(now_s) else "dim green"
    if before is not None and before.ends_s != MISSING and started and link.started_s > before.ends_s:
        for k in range(column(before.ends_s), min(max(start, column(before.ends_s) + 1), width)):
            cells[k], styles[k] = "░", "red"
    text = Text(f"link {link.number + 1:<4} job {link.job:<8}", style="")
    text.append("  ")
    for cell, style in zip(cells, styles):
        text.append(cell, style=style)
    text.append(" " + _handed_over(link, before))
    return text


def _handed_over(link: LinkRecord, before: LinkRecord | None) -> str:
    if link.started_s == MISSING:
        return "waits"
    if before is None or before.ends_s == MISSING:
        return ""
    x_s = link.started_s - before.ends_s
    return f"+{format_duration(x_s)}" if x_s > 0 else f"-{format_duration(-x_s)}" if x_s < 0 else ""


def _why(facts: Mapping[str, Any]) -> str:
    return f": {facts['why']}" if facts["why"] else ""


def _clock(at_s: int) -> str:
    return time.strftime("%m-%dT%H:%M", time.localtime(at_s))
