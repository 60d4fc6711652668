"""Chain on the terminal: a bar for each link, interruptions and overlaps marked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from mirage.duration import DAY_S, format_duration
from mirage.errors import one_line, quantity
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, HandOver, LinkRecord

LAST_LINKS = 20
_NAMES, _LOSSES, _LEAST = 24, 14, 20
"""Columns for names and for losses, and the least for the bars, which get the rest."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark for a stretch of time; signs differ, so that colour is not needed."""

    sign: str
    plain: str
    style: str
    meaning: str


HELD = Mark("┄", "-", "dim", "held")
WAITS = Mark("·", ".", "yellow", "waiting")
RUNS = Mark("█", "#", "green", "running")
AHEAD = Mark("▒", "=", "green", "to come")
GAP = Mark("×", "x", "bold red", "no link")
OVERLAP = Mark("▓", "%", "bold yellow", "two links")


def print_chain(run: ChainRun, facts: Mapping[str, Any], decision: Any, console: Console | None = None) -> None:
    """Prints the links of a chain over time and the losses between them.

    Args:
        facts: As printed by ``mirage chain list --json``.
        decision: The last one, or None.
        console: By default standard output.
    """
    out = console or Console(highlight=False)
    why = f": {one_line(facts['why'])}" if facts["why"] else ""
    lines = [Text.assemble((facts["chain"], "bold"), f"  {facts['state']}, policy {facts['policy']}{why}")]
    if not run.links:
        lines.append(Text("no link has been submitted yet"))
    else:
        if len(run.links) > LAST_LINKS:
            lines.append(Text(f"({len(run.links) - LAST_LINKS} earlier links are not drawn)", style="dim"))
        lines += timeline(run, out.width, plain=not out.encoding.lower().startswith("utf"))
        lost, twice = format_duration(run.interruption_s), format_duration(run.overlap_s)
        wasted = f" ({run.wasted_node_h:.2f} node-hours)" if run.overlap_s else ""
        lines.append(Text(f"interruption {lost}, overlap {twice}{wasted}, alive {run.availability:.2%} of the time"))
        if run.after_long_waits:
            lines.append(Text(_beyond_limit(run)))
    if facts.get("excluded"):
        clear = f"mirage chain edit {facts['chain']} --clear-excluded"
        lines.append(Text(f"excluded nodes: {', '.join(facts['excluded'])}; to use them again: {clear}"))
    for one in facts.get("shortened", ()):
        limits = f"{format_duration(one['limit'])} in place of {format_duration(one['usual'])}"
        lines.append(Text(f"link {one['link']} has a limit of {limits}, see its log"))
    if (budget := facts.get("budget")) is not None:
        lines.append(Text(_budget_line(budget)))
    if decision is not None:
        lines.append(Text(f"last decision {_clock(decision.time_s)}: {decision.reason}"))
    for line in lines:
        out.print(line, soft_wrap=True)


def _beyond_limit(run: ChainRun) -> str:
    """Returns the number of links that waited for longer than one may run, and what helps."""
    jobs = quantity(len(run.after_long_waits), "job")
    return (
        f"{jobs} waited longer than a job may run ({format_duration(run.link.limit_s)}), which interrupts a chain "
        "under any policy; a longer limit or fewer nodes may help, see mirage predict --compare"
    )


def _budget_line(budget: Mapping[str, Any]) -> str:
    """Returns the budget of a chain as one line."""
    line = f"budget: {budget['used']:.1f} of {budget['node_h']:g} node-hours used, {budget['left']:.1f} left"
    if budget["left"] and budget["runs_out"] is not None:
        line += f"; at the present rate it runs out on {time.strftime('%Y-%m-%d', time.localtime(budget['runs_out']))}"
    return line


def timeline(run: ChainRun, width: int, *, plain: bool = False) -> list[Text]:
    """Returns the lines of the last links, then the axis and the key of the marks.

    Args:
        width: Width of the terminal, in columns.
        plain: Whether to use only signs that any terminal has.
    """
    shown = run.links[-LAST_LINKS:]
    begin_s = min(link.queued_s for link in shown)
    both = any(over.interruption_s and over.overlap_s for over in run.hand_overs)
    free = max(width - _NAMES - _LOSSES * (1 + both), _LEAST)
    scale = _Scale(begin_s, max(run.until_s, begin_s + 1, *(k.ends_s for k in shown)), free)
    overs = {over.following: over for over in run.hand_overs if not over.open}
    overs |= {link.number: over for link in shown if link.started_s == MISSING for over in run.hand_overs if over.open}
    lines, used = [], set()
    for link in shown:
        cells = _cells(link, overs.get(link.number), run.until_s, scale)
        used |= set(cells)
        lines.append(_line(link, overs.get(link.number), cells, run.until_s, plain))
    legend = [mark for mark in (HELD, WAITS, RUNS, AHEAD, GAP, OVERLAP) if mark in used]
    return [*lines, _axis(scale), _legend(legend, plain)]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Scale from instants to columns."""

    begin_s: int
    end_s: int
    width: int

    def column(self, instant_s: int) -> int:
        share = (instant_s - self.begin_s) / (self.end_s - self.begin_s)
        return min(max(round(share * self.width), 0), self.width)


def _cells(link: LinkRecord, over: HandOver | None, now_s: int, scale: _Scale) -> list[Mark | None]:
    """Returns marks for every column; a loss shorter than a column still gets one."""
    cells: list[Mark | None] = [None] * scale.width

    def fill(mark: Mark, begin_s: int, end_s: int, least: int = 0) -> None:
        first = min(scale.column(begin_s), scale.width - least)
        for k in range(first, max(scale.column(end_s), first + least)):
            cells[k] = mark

    started = link.started_s != MISSING
    start_s = link.started_s if started else now_s
    if link.held_s != MISSING:
        fill(HELD, link.held_s, min(link.submitted_s, start_s))
    fill(WAITS, link.submitted_s, start_s)
    if started:
        fill(RUNS, link.started_s, min(link.ends_s, now_s), least=1)
        fill(AHEAD, max(link.started_s, now_s), link.ends_s)
    if over is not None and over.overlap_s:
        fill(OVERLAP, over.ended_s - over.overlap_s, over.ended_s, least=1)
    if over is not None and over.interruption_s:
        fill(GAP, over.ended_s, over.ended_s + over.interruption_s, least=1)
    return cells


def _line(link: LinkRecord, over: HandOver | None, cells: list[Mark | None], now_s: int, plain: bool) -> Text:
    job = f"job {link.job}" if link.job != MISSING else ""
    text = Text(f"link {link.number + 1:<4} {job:<13} "[:_NAMES].ljust(_NAMES))
    for mark in cells:
        text.append(" " if mark is None else _sign(mark, plain), style="" if mark is None else mark.style)
    if over is not None and over.interruption_s:
        text.append(f" +{format_duration(over.interruption_s)}", style=GAP.style)
    if over is not None and over.overlap_s:
        text.append(f" -{format_duration(over.overlap_s)}", style=OVERLAP.style)
    if link.started_s == MISSING:
        text.append(" held" if link.held_s != MISSING and link.submitted_s >= now_s else " waits")
    return text


def _axis(scale: _Scale) -> Text:
    """Returns the line of instants below the bars, as many as fit."""
    day_long = scale.end_s - scale.begin_s < DAY_S
    count = max(scale.width // 24, 1)
    text = " " * _NAMES
    for k in range(count + 1):
        instant_s = scale.begin_s + (scale.end_s - scale.begin_s) * k // count
        name = _clock(instant_s) if k == 0 or not day_long else time.strftime("%H:%M", time.localtime(instant_s))
        place = _NAMES + scale.width * k // count - (len(name) if k == count else 0)
        if place > len(text.rstrip()) or k == 0:
            text = text.ljust(place)[:place] + name
    return Text(text, style="dim")


def _legend(marks: list[Mark], plain: bool) -> Text:
    entries = [Text.assemble((_sign(mark, plain), mark.style), (f" {mark.meaning}", "dim")) for mark in marks]
    return Text(" " * _NAMES) + Text("  ").join(entries)


def _sign(mark: Mark, plain: bool) -> str:
    return mark.plain if plain else mark.sign


def _clock(at_s: int) -> str:
    return time.strftime("%m-%dT%H:%M", time.localtime(at_s))
