"""Charts of decisions: time left, expected waits and costs, and one submission."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from mirage.duration import HOUR_S
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, Decision
from mirage.report.axes import clock, numbers
from mirage.report.chart import Band, Chart, Curve, Instant, Points, Scale, Spot, picture_of
from mirage.report.picture import WIDE, Picture

SHOWN = 4
"""Number of links with decisions that are drawn, the last ones."""

DECISION_KEY = (
    ("remaining", "remaining time of the running link"),
    ("median", "expected wait of the next link, median"),
    ("band", "5 to 95 % of futures"),
    ("submit", "submits the next link"),
    ("waited", "its real wait"),
)

_COSTS = ("cost_now", "cost_later")
_COST_KEY = (("cost-now", "expected cost of submitting now"), ("cost-later", "of waiting one step"))

_SHOWN_S = 36 * HOUR_S
_NEEDED = {"wait_p05_s", "wait_p50_s", "wait_p95_s"}
_AFTER = 0.04
"""Share of the time axis that is left blank after the last decision."""


# -- all decisions ----------------------------------------------------------------------------------------------------


def estimate_key(decisions: Sequence[Decision]) -> tuple[tuple[str, str], ...]:
    """Returns the key of the marks that the chart draws: (style, text)."""
    remaining, median, band, submit, _ = DECISION_KEY
    is_weighed = any(_known(decision, name) for decision in decisions for name in _COSTS)
    is_expected = any(_known(decision, "wait_p50_s") for decision in decisions)
    expected = (median, band) if is_expected else ()
    return (remaining, *expected, submit, *(_COST_KEY if is_weighed else ()))


def estimate_chart(decisions: Sequence[Decision], width: float = WIDE) -> Picture:
    """Draws hours above and costs below, with a green line at every submission."""
    links = sorted({decision.link for decision in decisions})[-SHOWN:]
    shown = [decision for decision in decisions if decision.link in links]
    rows = [list(row) for _, row in groupby(shown, key=lambda decision: decision.link)]
    costs = [d.estimate[name] for d in shown for name in _COSTS if _known(d, name)]
    high = max(1.0, *(d.remaining_s / HOUR_S for d in shown), *(hours for _, hours in _hours(shown, "wait_p50_s")))
    tails = _hours(shown, "wait_p95_s")
    tail = max((hours for _, hours in tails), default=0.0)
    time = Scale(shown[0].now_s, max(shown[-1].now_s, shown[0].now_s + 60), clock)
    submitting = [d for d in shown if d.submits]
    above = [Instant(d.now_s, "submit", f"submits link {d.link + 2}", "submit-text halo") for d in submitting]
    hours = Chart(
        title="hours",
        x=time,
        y=Scale(0, max(high, min(tail, 2 * high)) * 1.05, numbers(4)),  # a long tail is cut off, and marked
        marks=[*(mark for row in rows for mark in _hour_marks(row)), Curve(tails, "", cut="h"), *above],
        height=190,
        has_x_names=not costs,
    )
    expected = Chart(
        title="expected cost",
        x=time,
        y=Scale(0, max(*costs, 0.1) * 1.05 if costs else 1.0, numbers(3)),
        marks=[
            *(Curve(_values(row, name), name.replace("_", "-")) for row in rows for name in _COSTS),
            *(Instant(d.now_s, "submit") for d in submitting),
        ],
        height=110,
    )
    description = f"{len(shown)} decisions about the last {len(rows)} links; {len(submitting)} let the next compete."
    return picture_of(description, hours, *([expected] if costs else []), width=width)


def _known(decision: Decision, name: str) -> bool:
    return math.isfinite(decision.estimate.get(name, math.nan))


def _values(row: Sequence[Decision], name: str) -> Points:
    return [(d.now_s, d.estimate[name]) for d in row if _known(d, name)]


def _hours(row: Sequence[Decision], name: str) -> Points:
    return [(now_s, value / HOUR_S) for now_s, value in _values(row, name)]


def _hour_marks(row: Sequence[Decision]) -> Iterator[Band | Curve]:
    low, high = _hours(row, "wait_p05_s") or _hours(row, "wait_p50_s"), _hours(row, "wait_p95_s")
    if len(low) == len(high):
        yield Band(high, low, "band")
    yield Curve(_hours(row, "wait_p50_s"), "median")
    yield Curve([(d.now_s, max(d.remaining_s, 0) / HOUR_S) for d in row], "remaining")


# -- one submission ---------------------------------------------------------------------------------------------------


def link_to_explain(run: ChainRun) -> int | None:
    """Returns the link with estimates and the longest wait of its successor; None without."""
    waited_s = {
        before.number: after.started_s - after.submitted_s
        for before, after in pairwise(run.links)
        if after.started_s != MISSING and len(_estimated(run, before.number)) > 2
    }
    return max(waited_s, key=lambda link: waited_s[link]) if waited_s else None


def decision_chart(run: ChainRun, link: int, width: float = WIDE) -> Picture:
    """Draws the last decisions while one link ran, and the wait of the next link."""
    decisions = _estimated(run, link)
    first_s, last_s = decisions[0].now_s, decisions[-1].now_s
    left_h = [d.remaining_s / HOUR_S for d in decisions]
    following = run.after(link)
    assert following is not None
    waited_h = (following.started_s - following.submitted_s) / HOUR_S
    waited = f"it waited {waited_h:.1f} h"
    high = max(*left_h, waited_h, 1.0) * 1.15  # a long tail is cut off, and marked there
    chart = Chart(
        title="hours",
        x=Scale(first_s, last_s + _AFTER * max(last_s - first_s, HOUR_S), clock),
        y=Scale(0, high, numbers(5)),
        marks=[
            *_hour_marks(decisions),
            Curve(_hours(decisions, "wait_p95_s"), "", cut="h"),
            Instant(last_s, "submit", "submits the next link", "submit-text halo"),
            Spot(last_s, waited_h, "waited", waited),
        ],
        height=236,
    )
    description = f"Estimates while link {link + 1} ran, until the next was submitted with {left_h[-1]:.1f} h left."
    return picture_of(f"{description} {waited.capitalize()}.", chart, width=width)


def _estimated(run: ChainRun, link: int) -> list[Decision]:
    """Returns decisions with estimates in the 36 hours up to the next submission."""
    following = run.after(link)
    until_s = run.until_s if following is None else following.submitted_s
    found = [d for d in run.decisions if d.link == link and d.now_s <= until_s and d.estimate.keys() >= _NEEDED]
    return [d for d in found if found[-1].now_s - d.now_s <= _SHOWN_S]
