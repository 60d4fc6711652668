"""A chain of a real cluster as one HTML file: its links, what was lost between them, what each decision saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mirage.duration import HOUR_S, format_duration
from mirage.provision.chain_run import ChainRun
from mirage.report.chain_chart import chain_chart
from mirage.report.page import folded, key, page, section, table, tiles

Told = tuple[int, int, str, str]


def chain_page(
    run: ChainRun,
    facts: Mapping[str, Any],
    decisions: Sequence[Mapping[str, Any]],
    events: Sequence[Told],
    version: str,
) -> str:
    """The page.

    Args:
        facts: As ``mirage chain list --json`` gives them.
        decisions: What policies said, in order of time.
        events: Time, link, kind and detail of what happened.
    """
    count = sum(link.started_s > 0 for link in run.links)
    lead = f"{facts['state']}{': ' + facts['why'] if facts['why'] else ''}; policy {facts['policy']}; Mirage {version}"
    body = [
        tiles(
            [
                ("alive", f"{run.availability:.2%}", "of the time since the first start"),
                ("interrupted", f"{run.interruption_s / HOUR_S:.1f} h", "without a link"),
                ("held twice", f"{run.overlap_s / HOUR_S:.1f} h", "two links at once"),
                ("links", str(count), "have started"),
            ]
        )
    ]
    if run.links:
        chart = chain_chart({facts["policy"]: run})
        body.append(section("Links", "Each bar is a job; the line before it is its time in the queue.", chart, _key()))
        body.append(section("Hand-overs", "From the end of one job to the start of the next.", _hand_overs(run)))
    if decisions:
        body.append(section("Decisions", "What was seen, what was expected, what was chosen.", _decisions(decisions)))
    rows = [[_when(at_s), str(link or ""), kind, detail] for at_s, link, kind, detail in events]
    log = table(("time (UTC)", "link", "what", "detail"), rows, numbers_from=9)
    body.append(section("Log", "Everything that happened.", folded(f"{len(rows)} events", log)))
    return page(f"Chain {facts['chain']}", lead, *body)


def _key() -> str:
    return key([("link-a", "a link"), ("gap", "interruption"), ("overlap", "overlap")])


def _hand_overs(run: ChainRun) -> str:
    rows = [
        [
            f"{over.link + 1} → {over.link + 2}",
            _when(over.ended_s),
            format_duration(over.x_s) if over.x_s > 0 else "",
            format_duration(-over.x_s) if over.x_s < 0 else "",
            "still open" if over.open else "",
        ]
        for over in run.hand_overs
    ]
    return table(("links", "end (UTC)", "interruption", "overlap", ""), rows)


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> str:
    """The decisions that let a link compete, and the last thirty that did not."""
    telling = [d for d in decisions if d["submits"]]
    shown = sorted([*telling, *[d for d in decisions if not d["submits"]][-30:]], key=lambda d: d["time_s"])
    names = sorted({name for d in shown for name in d["estimate"]})
    seen = sorted({name for d in shown for name in d["saw"]})
    rows = [
        [
            _when(d["time_s"]),
            str(d["link"]),
            "compete" if d["submits"] else "wait",
            d["reason"],
            *(_number(name, d["estimate"].get(name)) for name in names),
            *(_number(name, d["saw"].get(name)) for name in seen),
        ]
        for d in shown
    ]
    headings = ("time (UTC)", "link", "choice", "why", *(_heading(name) for name in (*names, *seen)))
    return folded(f"{len(shown)} of {len(decisions)} decisions", table(headings, rows, numbers_from=4))


def _heading(name: str) -> str:
    return name.removesuffix("_s").replace("_", " ")


def _number(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return format_duration(round(value)) if name.endswith("_s") else f"{value:.3g}"


def _when(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")
