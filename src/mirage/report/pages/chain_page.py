"""Report of a chain as one HTML file: links, hand-overs, decisions and events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from mirage.duration import HOUR_S, MINUTE_S, format_duration
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun
from mirage.report.charts.chain_charts import CHAIN_KEY, LINK_KEY, SHOWN, chain_chart, link_chart
from mirage.report.charts.decision_charts import estimate_chart, estimate_key
from mirage.report.html_page import CARDS, Cell, chart, folded, key, page, section, table, tiles

LoggedEvent = tuple[int, int, str, str]

WAIT = "wait"
"""The choice to change nothing."""


def chain_page(
    run: ChainRun,
    facts: Mapping[str, Any],
    decisions: Sequence[Mapping[str, Any]],
    events: Sequence[LoggedEvent],
    version: str,
) -> str:
    """Returns the HTML of the report.

    Args:
        facts: As printed by ``mirage chain list --json``.
        decisions: Decisions of the policies, in order of time.
        events: Time, link, kind and detail of each event.
    """
    lead = f"{facts['state']}{': ' + facts['why'] if facts['why'] else ''}; policy {facts['policy']}; Mirage {version}"
    body = [_tiles(run), *_links(run)]
    if decisions:
        charts = (
            [key(estimate_key(run.decisions)), chart(partial(estimate_chart, run.decisions))] if run.decisions else []
        )
        explained = "Remaining time of the running link, expected wait of the next, and the choice with its reason."
        body.append(section("Decisions", explained, *charts, _decisions(decisions)))
    rows = [[_when(at_s), str(link or ""), kind, detail] for at_s, link, kind, detail in events]
    log = table(("time (UTC)", "link", "what", "detail"), rows, numbers_from=9)
    body.append(section("Log", "All events.", folded(f"{len(rows)} events", log)))
    return page(f"Chain {facts['chain']}", lead, *body)


def _tiles(run: ChainRun) -> str:
    count = len(run.started)
    longest_s = max((over.interruption_s for over in run.hand_overs), default=0)
    longest = f"longest {_span(longest_s)}" if longest_s > 0 else "without a link"
    return tiles(
        [
            ("alive", f"{run.availability:.2%}" if count else "–", "of the time since the first start"),
            ("interruption", _span(run.interruption_s), longest),
            ("overlap", _span(run.overlap_s), f"{run.wasted_node_h:.1f} node-hours"),
            ("links", str(count), "have started"),
        ]
    )


def _span(seconds: int) -> str:
    """Formats a duration in seconds, minutes or hours."""
    if seconds < 2 * MINUTE_S:
        return f"{seconds} s"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"


def _links(run: ChainRun) -> list[str]:
    """Returns sections about the links over time and their hand-overs."""
    if not run.links:
        return [section("Links", "None has been submitted yet.")]
    shown = min(SHOWN, len(run.links))
    explained = (
        "A row each; times are UTC." if shown == len(run.links) else f"The last {shown}, a row each; times are UTC."
    )
    body = [section("Links", explained, key(LINK_KEY), chart(partial(link_chart, run)))]
    if shown < len(run.links):
        whole = "From the first link on. Times are UTC."
        life = partial(chain_chart, {f"{len(run.links)} links": run})
        body.append(section("The whole life", whole, key(CHAIN_KEY), chart(life)))
    if run.hand_overs:
        explained = "From the end of one job to the start of the next."
        body.append(section("Hand-overs", explained, _hand_overs(run)))
    return body


def _hand_overs(run: ChainRun) -> str:
    """Returns the table of the hand-overs, newest first."""
    rows: list[list[Cell]] = []
    for over in reversed(run.hand_overs):
        following = "?" if over.following == MISSING else str(over.following + 1)
        lost = (format_duration(over.interruption_s), "gap") if over.interruption_s else ""
        twice = (format_duration(over.overlap_s), "overlap") if over.overlap_s else ""
        wasted = f"{over.overlap_s / HOUR_S * run.link.nodes:.2f}" if over.overlap_s else ""
        note = "still open" if over.open else ""
        rows.append([f"{over.link + 1} → {following}", _when(over.ended_s), lost, twice, wasted, note])
    columns = ("links", "end (UTC)", "interruption", "overlap", "overlap node-hours", "")
    return table(columns, rows, cards=len(rows) <= CARDS)


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> str:
    """Returns the table of decisions that changed something, and the last thirty others."""
    acting = [d for d in decisions if _choice(d) != WAIT]
    shown = sorted([*acting, *[d for d in decisions if _choice(d) == WAIT][-30:]], key=lambda d: d["time_s"])
    names = sorted({name for d in shown for name in d["estimate"]})
    observed = sorted({name for d in shown for name in d["observed"]})
    rows = [
        [
            _when(d["time_s"]),
            str(d["link"]),
            _choice(d),
            d["reason"],
            *(_number(name, d["estimate"].get(name)) for name in names),
            *(_number(name, d["observed"].get(name)) for name in observed),
        ]
        for d in shown
    ]
    columns = [name.removesuffix("_s").replace("_", " ") for name in (*names, *observed)]
    headings = ("time (UTC)", "link", "choice", "why", *columns)
    return folded(f"{len(shown)} of {len(decisions)} decisions", table(headings, rows, numbers_from=4))


def _choice(decision: Mapping[str, Any]) -> str:
    """Returns the decision as a word; a revision has its own."""
    return decision.get("revision") or ("compete" if decision["submits"] else WAIT)


def _number(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    return format_duration(round(value)) if name.endswith("_s") else f"{value:.3g}"


def _when(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")
