"""Data for reports with figures that can be checked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.calibration.calibration_result import Calibration
from mirage.calibration.declared_settings import DeclaredSettings
from mirage.calibration.fidelity.judge_fidelity import Fidelity, judge
from mirage.calibration.fit_mechanisms import TraceSlice
from mirage.calibration.inferred.think_times import ThinkTimes
from mirage.calibration.mechanism_shares import ALL, PLAIN, MechanismFidelity, WaitCauseShares
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.calibration.wait_causes import CAUSES, LIMIT, NODES, ORDER, UNEXPLAINED
from mirage.chains.chain_evaluation import ChainEvaluation, PlayedChain, assess_chains
from mirage.chains.demonstration import Demonstration, Load
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.provision.chain_record import ChainRun, Decision, LinkRecord
from mirage.provision.evaluation.candidate import Candidate
from mirage.provision.evaluation.episode import Episode
from mirage.provision.evaluation.evaluate import Evaluation, assess
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.link_size import LinkSize
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.trace.statistics.summary import ValueSummary
from mirage.trace.table import JobTable

HOUR, DAY = 3600, 86_400
DAY0 = 20_000 * DAY
FACTS = {"chain": "train", "state": "active", "policy": "what-if", "why": ""}
KNOWN = {"wait_p05_s": 3600.0, "wait_p50_s": 7200.0, "wait_p95_s": 20000.0, "cost_now": 2.0, "cost_later": 1.0}


def record(number: int, submitted_h: float, start_h: float, end_h: float, held_h: float = -1) -> LinkRecord:
    """A link by hours since ``DAY0``; a negative hour is one that has not come."""
    times = [DAY0 + round(h * HOUR) if h >= 0 else MISSING for h in (submitted_h, start_h, end_h, held_h)]
    return LinkRecord(number, 40 + number, *times)


def decision(hour: float, link: int, left_h: float, submits: bool, **estimate: float) -> Decision:
    return Decision(DAY0 + round(hour * HOUR), link, round(left_h * HOUR), submits, "because", estimate)


LINKS = (record(0, 0, 2, 12), record(1, 8, 16, 26, 3), record(2, 20, 24, 34, 17), record(3, 28, -1, -1, 25))
DECISIONS = (
    decision(4, 0, 8, False, **KNOWN),
    decision(8, 0, 4, True, **KNOWN),
    decision(18, 1, 8, False),
    decision(20, 1, 6, True, **{**KNOWN, "wait_p95_s": float("inf"), "cost_later": float("nan")}),
)
RUN = ChainRun(LinkSize(2, 10 * HOUR), DAY0, DAY0 + 30 * HOUR, LINKS, DECISIONS)
"""Four links of ten hours on two nodes: an interruption of 4 h, an overlap of 2 h, and one link that waits."""

MANY = ChainRun(
    LinkSize(2, 10 * HOUR), DAY0, DAY0 + 360 * HOUR, tuple(record(k, 9 * k, 9 * k, 9 * k + 10) for k in range(40)), ()
)
"""Forty links, an hour of overlap at every hand-over."""


def _estimates(links: Sequence[LinkRecord]) -> tuple[Decision, ...]:
    """A decision every hour of every started link; estimates rise to a peak beyond the axis."""
    found = []
    for link in links:
        for hour in range(36):
            left_h = 40 - hour
            wait_h = 4 + 2 * abs(hour % 12 - 6) + (60 if hour == 8 else 0)
            estimate = {
                "wait_p05_s": wait_h / 4 * HOUR, "wait_p50_s": wait_h / 2 * HOUR, "wait_p95_s": wait_h * HOUR,
                "cost_now": 6 - hour / 6, "cost_later": hour / 6,
            }  # fmt: skip
            at_h = (link.started_s - DAY0) / HOUR + 8 + hour
            found.append(decision(at_h, link.number, left_h, hour == 35, **estimate))
    return tuple(found)


def demonstration() -> Demonstration:
    """Two weeks on 76 nodes; the last link of each chain waits.

    Reactive loses 3 × 12 h, auto holds 2 × 3 h twice, and what-if ends after four links.
    """
    late = (
        record(0, 0, 0, 48), record(1, 48, 60, 108), record(2, 108, 120, 168), record(3, 168, 180, 228),
        record(4, 228, 228, 276), record(5, 276, 276, 324), record(6, 336, -1, -1),
    )  # fmt: skip
    early = (
        record(0, 0, 0, 48), record(1, 43, 45, 93), record(2, 84, 93, 141), record(3, 120, 138, 186),
        record(4, 170, 186, 234), record(5, 220, 234, 282), record(6, 270, 282, 330), record(7, 329, -1, -1),
    )  # fmt: skip
    until_s = DAY0 + 336 * HOUR
    runs = {
        (8, "reactive"): ChainRun(LinkSize(8), DAY0, until_s, late, ()),
        (8, "what-if"): ChainRun(LinkSize(8), DAY0, until_s, early[:4], ()),
        (8, "auto"): ChainRun(LinkSize(8), DAY0, until_s, early, _estimates(early[:-1])),
    }
    times = np.arange(DAY0, until_s, HOUR)
    busy = np.minimum(76, 60 + times // HOUR % 24)
    load = Load(times, busy, (times // HOUR % 48) * 5, 1234, _waits())
    return Demonstration(7, 76, "slurm", DAY0, until_s, Cost(3, 1), load, runs)


def _waits() -> ValueSummary:
    found = ValueSummary.of(np.arange(0, 100 * HOUR, HOUR))
    assert found is not None
    return found


def judged(days: int = 70, **span: int) -> Fidelity:
    """A job every five hours, of two sizes and limits; waits are up to 8 h, every second +2 h."""
    submit_h = np.arange(0, days * 24, 5)
    wait_h = submit_h % 17 / 2
    table = JobTable.build(
        np.arange(len(submit_h)),
        submit_s=DAY0 + submit_h * HOUR,
        start_s=DAY0 + np.round((submit_h + wait_h) * HOUR).astype(np.int64),
        end_s=DAY0 + np.round((submit_h + wait_h + 9) * HOUR).astype(np.int64),
        nodes=1 + submit_h % 2 * 7,
        limit_s=np.where(submit_h % 3, 10, 48) * HOUR,
    )
    late_s = np.arange(len(submit_h)) % 2 * 2 * HOUR
    return judge(table, table.with_columns(start_s=table.start_s + late_s, end_s=table.end_s + late_s), **span)


CALIBRATED = (TraceSlice(DAY0, DAY0 + 28 * DAY), TraceSlice(DAY0 + 28 * DAY, DAY0 + 70 * DAY))
"""Four weeks that a calibration is fitted to, and six that it is judged by."""


def calibration(**declared: object) -> Calibration:
    """Jobs of ``judged``, of five users.

    Every second job starts hours late, half as many on the fitted slice.
    """
    submit_h = np.arange(0, 70 * 24, 5)
    wait_h, run_h, nodes = submit_h % 17 / 2, 9, 1 + submit_h % 2 * 7
    table = JobTable.build(
        np.arange(len(submit_h)),
        submit_s=DAY0 + submit_h * HOUR,
        start_s=DAY0 + np.round((submit_h + wait_h) * HOUR).astype(np.int64),
        end_s=DAY0 + np.round((submit_h + wait_h + run_h) * HOUR).astype(np.int64),
        nodes=nodes,
        limit_s=np.where(submit_h % 3, 10, 48) * HOUR,
        user=[f"u{k % 5}" for k in range(len(submit_h))],
    )
    best = Mechanisms(dip_s=12 * HOUR, age=500.0, turnover_s=15)
    late_h = {PLAIN: 4, ALL: 2, "dip_s": 3, "age": 3, "turnover_s": 2, "weather_s": 3}
    rows = tuple(
        MechanismFidelity(name, _late(table, hours / 2, CALIBRATED[0]), _late(table, hours, CALIBRATED[1]))
        for name, hours in late_h.items()
    )
    site = Site.of(table, SlurmSettings(), CALIBRATED[0].from_s, CALIBRATED[0].until_s)
    waited = (
        WaitCauseShares(
            {NODES: 0.5, LIMIT: 0.0, ORDER: 0.3, UNEXPLAINED: 0.2}, dict(zip(CAUSES, (0.7, 0.0, 0.25, 0.05))), 0.25
        ),
        WaitCauseShares(
            {NODES: 0.4, LIMIT: 0.0, ORDER: 0.2, UNEXPLAINED: 0.4}, dict(zip(CAUSES, (0.7, 0.0, 0.24, 0.06))), 0.375
        ),
    )
    users = ThinkTimes(120, 30, 0.25, 0.05, 1200)
    facts = {"declared": DeclaredSettings(SlurmSettings(), "slurm.conf"), "site": site, "best": best} | declared
    return Calibration("data/jobs.csv", fitted=CALIBRATED[0], after=CALIBRATED[1], rows=rows, waited=waited,
                       users=users, **facts)  # type: ignore[arg-type]  # fmt: skip


def _late(table: JobTable, hours: float, stretch: TraceSlice) -> Fidelity:
    late_s = np.arange(len(table)) % 2 * round(hours * HOUR)
    moved = table.with_columns(start_s=table.start_s + late_s, end_s=table.end_s + late_s)
    return judge(table, moved, from_s=stretch.from_s, until_s=stretch.until_s)


def evaluation(
    costs: Sequence[Cost] = (Cost(1, 1), Cost(2, 1), Cost(5, 1), Cost(10, 1)), windows: int = 60, nodes: int = 1
) -> Evaluation:
    """Hand-overs a day apart: a reactive link waits 1, 4, 16 or 22 h in turn.

    An hour of lead saves an hour.
    """
    policies = ("reactive", "average", "lead:4", "what-if", "oracle")
    trials = tuple(_trial(window, (1, 4, 16, 22)[window % 4], LinkSize(nodes), costs) for window in range(windows))
    return assess({nodes: trials}, policies, costs)


def _trial(window: int, wait_h: int, link: LinkSize, costs: Sequence[Cost]) -> WindowTrial:
    starts_s = DAY0 + window * DAY
    ends_s = starts_s + 48 * HOUR
    lead_h = np.arange(47, -1, -1)
    outcome_s = (wait_h - lead_h) * HOUR
    episode = Episode(window, link, starts_s, starts_s, ends_s, ends_s - lead_h * HOUR, outcome_s)
    leads_h = {"average": 6, "lead:4": 4}
    chosen = {policy: 47 - hours for policy, hours in leads_h.items()}
    for cost in costs:
        ahead_h = min(wait_h // 2 + round(2 * cost.interruption), 47)
        chosen[Candidate("what-if", cost).key] = 47 - ahead_h
    return WindowTrial(episode, chosen, dict.fromkeys(chosen, 1))


PROVENANCE = {
    "trace": "data/jobs.csv", "nodes": 76, "discipline": "slurm", "settings": "lonestar6", "protocol": "warm",
    "link_user": "newcomer", "hand_over": 1, "every_s": 4 * HOUR,
    "start": "2024-10-04T00:00:00Z", "windows": 60, "seed": 0, "version": "0.1.0",
    "command": "mirage evaluate data/jobs.csv --nodes 76",
}  # fmt: skip


def chain_evaluation(windows: int = 4, costs: Sequence[Cost] = (Cost(3, 1),)) -> ChainEvaluation:
    """Chains of two weeks: with ``reactive``, they are interrupted for 20, 40, 60 … hours.

    Half of this is after long waits.
    With ``auto`` a chain is interrupted for a quarter of that, and has an hour of overlap.
    """

    def played(window: int, share: float, overlap_s: int) -> PlayedChain:
        lost_s = round((20 + 20 * window) * HOUR * share)
        return PlayedChain(DAY0 + 14 * window * DAY, lost_s, overlap_s, lost_s // 2, 14 * DAY, 28, 12 * DAY)

    chains = {
        (policy, 8, cost): tuple(played(window, share, overlap_s) for window in range(windows))
        for cost in costs
        for policy, share, overlap_s in (("reactive", 1, 0), ("auto", 0.25, HOUR), ("oracle", 0, 0))
    }
    return assess_chains(chains, "reactive")


CHAIN_PROVENANCE = {
    **PROVENANCE, "windows": 4, "chain_s": 14 * DAY, "link_limit_s": 12 * HOUR, "waiting_links": 3,
    "command": "mirage evaluate data/jobs.csv --nodes 76 --chain-length 14d",
}  # fmt: skip
