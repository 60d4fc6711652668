"""Report of ``mirage demo`` as one HTML file."""

from __future__ import annotations

import math
from functools import partial

from mirage.chains.demonstration import LINKS, LOAD, MODEL, POLICIES, Demonstration, Load
from mirage.duration import HOUR_S, MINUTE_S, format_duration
from mirage.provision.chain_record import ChainRun, HandOver
from mirage.report.axes import date_name, dates, numbers
from mirage.report.chart import Chart, Curve, Level, Scale, picture_of, steps
from mirage.report.charts.chain_charts import CHAIN_KEY, chain_chart
from mirage.report.charts.decision_charts import DECISION_KEY, decision_chart, link_to_explain
from mirage.report.html_page import Cell, chart, command, folded, key, page, section, sentences, table, tiles
from mirage.report.picture import WIDE, Picture
from mirage.report.svg import element

_REACTIVE, *_, _AHEAD = POLICIES
"""The first and the last: what most people do, and the default of the agent."""

_NOTHING_S = 3 * MINUTE_S


def demo_page(demo: Demonstration, shown_command: str, version: str) -> str:
    """Returns the report as one HTML document."""
    ratio = f"{demo.cost.interruption:g}:{demo.cost.overlap:g}"
    lead = (
        f"A service that runs in batch jobs of {LINKS[0].limit_s // HOUR_S} hours, on a simulated cluster of "
        f"{demo.nodes} nodes with the queue of an A100 partition. Between two jobs it is down while the next one "
        "waits, unless that is submitted in time."
    )
    return page(
        "Two weeks of a service on a shared cluster",
        lead,
        _tiles(demo),
        *[_chain_section(demo, link.nodes) for link in LINKS],
        _hand_over_section(demo.runs[LINKS[0].nodes, _AHEAD]),
        _why_section(demo),
        _load_section(demo),
        section(
            "How this was made",
            f"Workload: built-in model {MODEL}, load {LOAD:g}, seed {demo.seed}, three weeks of warm-up. Queue: "
            f"{demo.discipline}, "
            f"Lonestar6's parameters. The chains are kept alive by the agent itself, on a simulated "
            f"Slurm. An hour of interruption against an hour of overlap costs {ratio}. The same command gives the "
            f"same report. mirage evaluate compares policies over many hand-overs of a trace. Mirage {version}.",
            command(shown_command),
        ),
    )


def _tiles(demo: Demonstration) -> str:
    nodes = LINKS[0].nodes
    before, after = demo.runs[nodes, _REACTIVE], demo.runs[nodes, _AHEAD]
    return tiles(
        [
            (
                "interruption, reactive",
                f"{before.interruption_s / HOUR_S:.1f} h",
                f"{nodes}-node links, alive {before.availability:.1%}",
            ),
            (f"interruption, {_AHEAD}", f"{after.interruption_s / HOUR_S:.1f} h", f"alive {after.availability:.1%}"),
            (f"overlap, {_AHEAD}", f"{after.overlap_s / HOUR_S:.1f} h", "the price of being early"),
            ("95 % of jobs waited up to", _hours(demo.load.wait_s.p95), f"{demo.load.jobs:,} jobs in two weeks"),
        ]
    )


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR_S:.1f} h"


def _chain_section(demo: Demonstration, nodes: int) -> str:
    runs = {policy: demo.runs[nodes, policy] for policy in POLICIES}
    columns = ("policy", "links", "interruption", "longest", "overlap", "overlap node-hours", "alive", "cost")
    return section(
        f"A chain of {nodes}-node links",
        "The same cluster and the same other users; only the time at which the next link is submitted differs.",
        key(CHAIN_KEY),
        chart(partial(chain_chart, runs)),
        table(columns, [_row(policy, run, demo) for policy, run in runs.items()], cards=True),
    )


def _row(policy: str, run: ChainRun, demo: Demonstration) -> list[Cell]:
    longest_s = max([h.interruption_s for h in run.hand_overs], default=0)
    return [
        policy,
        str(len(run.started)),
        (_hours(run.interruption_s), "gap" if run.interruption_s >= _NOTHING_S else "good"),
        _hours(longest_s),
        (_hours(run.overlap_s), "overlap" if run.overlap_s >= _NOTHING_S else "good"),
        f"{run.wasted_node_h:.1f}",
        f"{run.availability:.1%}",
        f"{run.cost(demo.cost):.1f}",
    ]


def _hand_over_section(run: ChainRun) -> str:
    """The hand-over with the longest wait, and the one with the longest interruption."""
    ended = [one for one in run.hand_overs if not one.open]
    well = [one for one in ended if one.interruption_s < _NOTHING_S]
    badly = [one for one in ended if one.interruption_s >= _NOTHING_S]
    found = [
        *([f"One that went well: {_sentence(run, max(well, key=lambda one: _waited_s(run, one)))}"] if well else []),
        *([f"One that did not: {_sentence(run, max(badly, key=lambda one: one.interruption_s))}"] if badly else []),
    ]
    if run.after_long_waits:
        lost = _hours(sum(one.interruption_s for one in run.after_long_waits))
        found.append(
            f"{lost} of the interruption came after waits of more than {_hours(run.link.limit_s)}, longer than a job "
            "may run. No policy avoids the first of such waits; a longer limit or fewer nodes may."
        )
    counts = f"{len(well)} of {len(ended)} hand-overs of {_AHEAD} had no interruption."
    return section("Two of the hand-overs", counts, *[element("p", sentences(one)) for one in found])


def _waited_s(run: ChainRun, hand_over: HandOver) -> int:
    following = run.links[hand_over.following]
    return following.started_s - following.submitted_s


def _sentence(run: ChainRun, hand_over: HandOver) -> str:
    """Returns a hand-over in one sentence or two."""
    following = run.links[hand_over.following]
    early_s = hand_over.ended_s - following.submitted_s
    moment = "at the end" if early_s < _NOTHING_S else f"{_hours(early_s)} before the end"
    released = [d for d in run.decisions if d.submits and d.link == hand_over.link and "wait_p50_s" in d.estimate]
    expected = ""
    if released:
        low, median, high = (released[-1].estimate.get(f"wait_{p}_s", math.nan) for p in ("p05", "p50", "p95"))
        expected = f", for an expected wait of {_hours(median)}"
        if math.isfinite(low) and math.isfinite(high):
            expected += f" (90 % of futures: {_hours(low)} to {_hours(high)})"
    if hand_over.interruption_s >= _NOTHING_S:
        outcome = f"the service was down for {_hours(hand_over.interruption_s)}"
    elif hand_over.overlap_s < MINUTE_S:
        outcome = f"it started when link {hand_over.link + 1} ended"
    else:
        outcome = f"both links held nodes for {round(hand_over.overlap_s / MINUTE_S)} min"
    return (
        f"link {following.number + 1} was submitted {moment} of link {hand_over.link + 1}{expected}. "
        f"It waited {_hours(_waited_s(run, hand_over))}: {outcome}."
    )


def _why_section(demo: Demonstration) -> str:
    nodes = LINKS[0].nodes
    run = demo.runs[nodes, _AHEAD]
    link = link_to_explain(run)
    explained = (
        "At every decision the visible queue is simulated forward many times: run times are drawn from the use of "
        "limits by similar jobs, new jobs from the recent past. The next link is submitted when waiting one more step "
        "is expected to cost more than submitting now."
    )
    drawn = [] if link is None else [key(DECISION_KEY), chart(partial(decision_chart, run, link))]
    log = folded(f"All {len(run.decisions)} decisions of {_AHEAD} for links of {nodes} nodes", _log(run))
    heading = "Why then?" if link is None else f"Why then? Link {link + 1} of the {nodes}-node chain nears its end"
    return section(heading, explained, *drawn, log)


def _log(run: ChainRun) -> str:
    names = ("wait_p50_s", "wait_p95_s", "cost_now", "cost_later")
    columns = ("time", "link", "left", "median wait", "95 % wait", "cost now", "cost later", "decision", "because")
    rows: list[list[Cell]] = []
    for d in run.decisions:
        shown = ["" if n not in d.estimate else _shown(n, d.estimate[n]) for n in names]
        choice: Cell = ("submit", "good") if d.submits else "wait"
        time = f"{date_name(d.now_s)} {d.now_s // HOUR_S % 24:02d}:{d.now_s // 60 % 60:02d}"
        rows.append([time, str(d.link + 1), format_duration(d.remaining_s), *shown, choice, d.reason])
    return table(columns, rows)


def _shown(name: str, value: float) -> str:
    return format_duration(round(value)) if name.endswith("_s") else f"{value:.2f}"


def _load_section(demo: Demonstration) -> str:
    waits = demo.load.wait_s
    explained = (
        f"{demo.load.jobs:,} jobs of other users; median wait {_hours(waits.p50)}, 90 % up to {_hours(waits.p90)}, "
        f"longest {_hours(waits.max)}. On average {demo.load.busy.mean() / demo.nodes:.0%} of the nodes are busy."
    )
    return section("The cluster", explained, chart(partial(load_chart, demo.load, demo.nodes, demo.until_s)))


def load_chart(load: Load, nodes: int, until_s: int, width: float = WIDE) -> Picture:
    """Draws busy nodes and the queue as steps."""
    edges = [*load.time_s.tolist(), until_s]
    time = Scale(edges[0], until_s, dates)
    busy = Chart(
        title="busy nodes",
        x=time,
        y=Scale(0, nodes * 1.05, numbers(4)),
        marks=[Curve(steps(edges, load.busy), "edge", area="area"), Level(nodes, f"{nodes} nodes")],
        height=124,
        has_x_names=False,
    )
    queue = Chart(
        title="nodes requested by waiting jobs",
        x=time,
        y=Scale(0, max(float(load.queued.max()), 1.0) * 1.05, numbers(3)),
        marks=[Curve(steps(edges, load.queued), "queue", area="queue-area")],
        height=110,
    )
    description = f"Busy nodes: mean {load.busy.mean():.0f} of {nodes}. Queue: mean {load.queued.mean():.0f} nodes."
    return picture_of(description, busy, queue, width=width)
