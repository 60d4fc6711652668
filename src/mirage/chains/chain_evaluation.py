"""Evaluation of policies by whole chains.

In each window, the agent keeps a chain alive on a simulated Slurm, with every rule that it has on a real one: the
windows of ``mirage.provision.evaluation`` have a single hand-over, and no rule but the policy's.

evaluation = evaluate_chains(ChainStudy(scenario, begin_s, 8, 14 * DAY_S, 14 * DAY_S, (LinkSize(8, 12 * HOUR_S),)), …)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mirage.agent.model import WAITING_LINKS
from mirage.array_types import Floats
from mirage.chains.oracle_chain import play_oracle
from mirage.chains.simulated_chain import keep_alive
from mirage.duration import HOUR_S, MINUTE_S, format_duration
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.provision.chain_record import ChainRun
from mirage.provision.compile_simulator import use
from mirage.provision.evaluation.candidate import BOUNDS, ORACLE, Candidate, each_cost
from mirage.provision.evaluation.episode import Scenario, link_user
from mirage.provision.evaluation.evaluate import check_links, compared_with, dates_and_jobs, windows_that_fit
from mirage.provision.evaluation.evaluation_study import codes_of, files_of, inputs_of
from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.policy_score import ALL
from mirage.provision.link_size import LinkSize
from mirage.sim.disciplines.discipline_registry import discipline_spec
from mirage.sim.simulation import Simulation
from mirage.study.executors.executor import Executor
from mirage.study.executors.work_codec import sent_to_jobs
from mirage.study.intervals import Interval, interval_of_mean, student_tail
from mirage.study.journal import TrialJournal
from mirage.study.paired_test import corrected
from mirage.study.play_trials import Progress, play_trials
from mirage.study.trial import code_key, key_of

Place = tuple[int, int, int]
"""Numbers of a window, of a size of link and of a candidate: one chain."""


@dataclass(frozen=True, slots=True)
class ChainStudy:
    """Which chains are played, and where.

    Attributes:
        begin_s: Begin of the first window.
        windows: Number of windows.
        every_s: Time between the begins of two windows.
        chain_s: Time for which a chain is kept alive.
        links: Sizes of the links.
        candidates: The policies, once for each cost that they weigh.
        step_s: Time between polls of the agent, and between its decisions.
        waiting_links: Maximum number of links of a chain that wait at once.
        link_user: Owner of the links, as in ``EvaluationProtocol``.
    """

    scenario: Scenario
    begin_s: int
    windows: int
    every_s: int
    chain_s: int
    links: tuple[LinkSize, ...]
    candidates: tuple[Candidate, ...]
    step_s: int = 30 * MINUTE_S
    waiting_links: int = WAITING_LINKS
    link_user: str = "newcomer"

    def begins_s(self, window: int) -> int:
        """When a window begins."""
        return self.begin_s + window * self.every_s

    @property
    def places(self) -> list[Place]:
        """All chains, window by window."""
        links, candidates = range(len(self.links)), range(len(self.candidates))
        return [(w, k, c) for w in range(self.windows) for k in links for c in candidates]

    @property
    def key(self) -> str:
        """Digest of what all chains share: the cluster, its jobs, and the code that plays them."""
        scenario = self.scenario
        return key_of(
            code_key([__name__, discipline_spec(scenario.discipline).entry.partition(":")[0]], "numpy", "numba"),
            *inputs_of(scenario, self.link_user),
            (self.chain_s, self.step_s, self.waiting_links, self.link_user),
        )

    def key_of(self, place: Place) -> str:
        """Key of one chain in the journal of its study."""
        window, link, candidate = place
        played = self.candidates[candidate]
        at = self.begins_s(window), self.links[link], played
        return key_of(*at) if played.policy == ORACLE else key_of(*at, code_key(codes_of(played)), *files_of(played))


@dataclass(frozen=True, slots=True)
class PlayedChain:
    """What became of one chain, in seconds of its window.

    Attributes:
        interruption_s: Time without a link, after the first one had started.
        overlap_s: Time in which two links held nodes.
        beyond_limit_s: Part of the interruption that followed a wait longer than a link may run.
        alive_s: Time since the first link started; 0 if none did.
        started: Links that started.
        held_s: Time in which links held nodes, up to the end of the window; that of two links at once counts twice.
    """

    begin_s: int
    interruption_s: int
    overlap_s: int
    beyond_limit_s: int
    alive_s: int
    started: int
    held_s: int

    def to_json(self) -> dict[str, int]:
        """Returns the chain as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ChainRow:
    """Means over windows of one policy, size of link and cost; hours per chain.

    Attributes:
        cost_ratio: Cost of an hour of interruption, in hours of overlap; None if overlap is free.
        availability: Share of the time since the first start in which a link ran.
        held_node_h: Node-hours that links held.
        unstarted: Windows in which no link started; such a chain has neither interruption nor cost.
        cost_95: 95 % interval of the mean cost, by Student's t; None from one window.
    """

    policy: str
    link_nodes: int
    cost_ratio: float | None
    windows: int
    unstarted: int
    interruption_h: float
    overlap_h: float
    beyond_limit_h: float
    availability: float
    links: float
    held_node_h: float
    cost: float
    cost_95: Interval | None

    def to_json(self) -> dict[str, Any]:
        """Returns the row as plain values."""
        return asdict(self)


Chains = dict[str, tuple[PlayedChain, ...]]
"""Chains by policy, each by window."""


@dataclass(frozen=True, slots=True)
class ChainTable:
    """The part of an evaluation with one size of link and one cost.

    Attributes:
        rows: One for each policy.
        differences: Of each policy, except the one that it is compared with.
        chains: Of each policy.
    """

    rows: list[ChainRow]
    differences: dict[str, Difference]
    chains: Chains


@dataclass(frozen=True, slots=True)
class ChainEvaluation:
    """Result of an evaluation by whole chains.

    Attributes:
        chains: (policy, nodes of a link, cost) → its chains by window.
        rows: Link × cost × policy, in that nesting from the outside in.
        differences: Every policy against one of them, in the same order; empty if there is no such policy. They are
            means over chains, with intervals of Student's t over the windows, and of all loads and months.
        reused: Number of chains that had been played before.
    """

    chains: dict[tuple[str, int, Cost], tuple[PlayedChain, ...]]
    rows: tuple[ChainRow, ...]
    differences: tuple[Difference, ...]
    reused: int

    def tables(self) -> Iterator[ChainTable]:
        """Yields a table for each size of link and cost."""
        for (nodes, cost), chains in _by_place(self.chains).items():
            place = nodes, cost.ratio
            yield ChainTable(
                [row for row in self.rows if (row.link_nodes, row.cost_ratio) == place],
                {d.policy: d for d in self.differences if (d.link_nodes, d.cost_ratio) == place},
                chains,
            )


def evaluate_chains(
    study: ChainStudy,
    policies: Sequence[str],
    costs: Sequence[Cost] = (Cost(),),
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    resume_dir: Path | None = None,
    against: str | None = None,
) -> ChainEvaluation:
    """Keep a chain alive in every window with each policy, and compare what became of them.

    ``oracle`` is not a policy of the agent but a ceiling, see ``mirage.chains.oracle_chain``.

    Args:
        study: The windows and how they are played; its candidates are set here.
        policies: By name, as for ``mirage submit``, and ``oracle``; other bounds judge a single hand-over.
        costs: Cost of an hour of interruption and of overlap; policies that weigh costs keep a chain for each.
        executor: Plays the chains; None for this process.
        progress: Called after every chain.
        resume_dir: Where results are stored as they arrive, and read at the start.
        against: The policy to compare all others with; by default the ``what-if`` among them.

    Raises:
        UnknownName: A policy or discipline is unknown.
        ConfigurationError: A policy's parameter is invalid, a policy is a bound, a chain is too short or lies outside
            the trace, or ``against`` is not among the policies.
    """
    shown = tuple(dict.fromkeys(policies))
    base = compared_with(shown, against)
    _check(study, shown)
    study = replace(study, candidates=tuple(one for name in shown for one in each_cost(name, costs)))
    journal = None
    if resume_dir is not None:
        file = resume_dir / f"chains-{study.key}.jsonl"
        journal = TrialJournal(file, study.key_of, lambda plain: PlayedChain(**plain), PlayedChain.to_json)

    def prepare(places: Sequence[Place]) -> None:
        discipline_spec(study.scenario.discipline).load()
        for candidate in study.candidates:  # refuses a wrong parameter before hours of work
            if candidate.policy != ORACLE:
                candidate.make(study.scenario, 0)
        if len(places) > 1:
            use(study.scenario.discipline)

    played = play_trials(
        begin_chains, study, study.places, journal=journal, executor=executor, progress=progress, prepare=prepare
    )
    chains = {
        (policy, link.nodes, cost): tuple(
            played.found[window, k, study.candidates.index(each_cost(policy, [cost])[0])]
            for window in range(study.windows)
        )
        for k, link in enumerate(study.links)
        for cost in costs
        for policy in shown
    }
    return assess_chains(chains, base, played.reused)


def assess_chains(
    chains: dict[tuple[str, int, Cost], tuple[PlayedChain, ...]], base: str | None, reused: int = 0
) -> ChainEvaluation:
    """Returns the rows and differences of chains that were played.

    Args:
        chains: As in the result.
        base: The policy to compare all others with, if any.
        reused: Number of chains that had been played before.
    """
    rows: list[ChainRow] = []
    compared: list[Difference] = []
    for (nodes, cost), of in _by_place(chains).items():
        rows += [_row(policy, nodes, cost, its) for policy, its in of.items()]
        compared += _differences(of, base, nodes, cost) if base else []
    return ChainEvaluation(chains, tuple(rows), tuple(compared), reused)


def _by_place(chains: dict[tuple[str, int, Cost], tuple[PlayedChain, ...]]) -> dict[tuple[int, Cost], Chains]:
    found: dict[tuple[int, Cost], Chains] = {}
    for (policy, nodes, cost), its in chains.items():
        found.setdefault((nodes, cost), {})[policy] = its
    return found


@sent_to_jobs
def begin_chains(study: ChainStudy) -> Callable[[Place], tuple[Place, PlayedChain]]:
    """Returns the function that plays one chain after another, window by window.

    One replay of the trace serves them all. The result of a chain does not depend on the ones before it.
    """
    replay = study.scenario.simulation()

    def played(place: Place) -> tuple[Place, PlayedChain]:
        replay.approach(study.begins_s(place[0]))
        run = _run(study, place, replay.fork())
        begin_s, started = run.begin_s, run.started
        return place, PlayedChain(
            begin_s,
            run.interruption_s,
            run.overlap_s,
            sum(over.interruption_s for over in run.after_long_waits),
            run.until_s - started[0].started_s if started else 0,
            len(started),
            sum(min(one.ends_s, run.until_s) - one.started_s for one in started),
        )

    return played


def _run(study: ChainStudy, place: Place, sim: Simulation) -> ChainRun:
    """One chain from now on; the simulation is consumed."""
    window, k, c = place
    link, candidate = study.links[k], study.candidates[c]
    user = link_user(sim.workload, study.link_user, study.begins_s(window))
    cost, until_s, most = candidate.cost or Cost(), study.begins_s(window) + study.chain_s, study.waiting_links
    if candidate.policy == ORACLE:
        return play_oracle(sim, link, cost, until_s, most, user=user, step_s=study.step_s)
    name = sim.workload.table.user.names[user - 1] if user else ""
    return keep_alive(sim, link, candidate.policy, cost, until_s, most, user=name, step_s=study.step_s)


def _check(study: ChainStudy, policies: Sequence[str]) -> None:
    bounds = [policy for policy in policies if policy != ORACLE and policy.partition(":")[0] in BOUNDS]
    if bounds:
        one = len(bounds) == 1
        raise ConfigurationError(
            f"{', '.join(bounds)} {'judges' if one else 'judge'} a single hand-over; leave {'it' if one else 'them'} "
            "out to judge whole chains"
        )
    first_s, last_s = check_links(study.scenario, study.links, study.step_s)
    for link in study.links:
        if study.chain_s <= link.limit_s:
            raise ConfigurationError(
                f"a chain of {format_duration(study.chain_s)} has no hand-over of links of "
                f"{format_duration(link.limit_s)}; give a longer chain, or a shorter --link-limit"
            )
    if study.chain_s > last_s - first_s:
        raise ConfigurationError(
            f"a chain of {format_duration(study.chain_s)} is longer than the trace, in which jobs are submitted for "
            f"{format_duration(last_s - first_s)}; give a shorter --chain-length, or a longer trace"
        )
    if study.every_s < study.chain_s:
        raise ConfigurationError(
            f"windows every {format_duration(study.every_s)} have chains of {format_duration(study.chain_s)} that "
            "overlap, so the intervals would be too narrow; give an --every of the length of a chain, or longer"
        )
    if study.begin_s < first_s:
        when = dates_and_jobs(study.begin_s, first_s, last_s)
        raise ConfigurationError(f"the first window begins before the trace: {when}; give a later --start")
    if study.begins_s(study.windows - 1) + study.chain_s > last_s:
        fitting = max((last_s - study.chain_s - study.begin_s) // study.every_s + 1, 0)
        remedy = f", or {fitting} --windows" if fitting else ""
        raise ConfigurationError(
            f"the chain of window {study.windows} ends after the last job of the trace: "
            f"{dates_and_jobs(study.begins_s(study.windows - 1) + study.chain_s, first_s, last_s)}; "
            f"{windows_that_fit(fitting)}: give an earlier --start{remedy}"
        )


def _row(policy: str, nodes: int, cost: Cost, chains: Sequence[PlayedChain]) -> ChainRow:
    costs = _costs(chains, cost)
    alive_s = sum(one.alive_s for one in chains)
    lost_s = sum(one.interruption_s for one in chains)
    return ChainRow(
        policy=policy,
        link_nodes=nodes,
        cost_ratio=cost.ratio,
        windows=len(chains),
        unstarted=sum(not one.started for one in chains),
        interruption_h=lost_s / len(chains) / HOUR_S,
        overlap_h=_mean_h(one.overlap_s for one in chains),
        beyond_limit_h=_mean_h(one.beyond_limit_s for one in chains),
        availability=1 - lost_s / alive_s if alive_s else 0.0,
        links=sum(one.started for one in chains) / len(chains),
        held_node_h=_mean_h(one.held_s * nodes for one in chains),
        cost=float(costs.mean()),
        cost_95=None if (interval := _interval(costs)) is None else (max(interval[0], 0.0), interval[1]),
    )


def _differences(chains: Chains, base: str, nodes: int, cost: Cost) -> list[Difference]:
    """The table of one size of link and one cost.

    Policies with the same hand-overs count once in its correction, and the oracle does not.
    """
    reference = chains[base]
    found, p_values = [], {}
    for policy, own in chains.items():
        if policy == base:
            continue
        change, late, early = (_costs(own, c) - _costs(reference, c) for c in (cost, Cost(1.0, 0.0), Cost(0.0, 1.0)))
        found.append(
            Difference(
                policy=policy,
                against=base,
                link_nodes=nodes,
                load=ALL,
                month=ALL,
                cost_ratio=cost.ratio,
                windows=len(own),
                cost=float(change.mean()),
                interruption_h=float(late.mean()),
                overlap_h=float(early.mean()),
                cost_95=_interval(change),
                interruption_95=_interval(late),
                overlap_95=_interval(early),
                p_value=_p_value(change) if len(own) > 1 else None,
                p_corrected=None,
            )
        )
        if policy != ORACLE:
            p_values[_hand_overs(own)] = _p_value(change)
    if len(reference) < 2:
        return found
    after = dict(zip(p_values, corrected(list(p_values.values()))))
    return [
        one if one.policy == ORACLE else replace(one, p_corrected=after[_hand_overs(chains[one.policy])])
        for one in found
    ]


def _hand_overs(chains: Sequence[PlayedChain]) -> tuple[tuple[int, int], ...]:
    return tuple((one.interruption_s, one.overlap_s) for one in chains)


def _costs(chains: Sequence[PlayedChain], cost: Cost) -> Floats:
    return np.array([cost.total(one.interruption_s, one.overlap_s) for one in chains], dtype=np.float64)


def _mean_h(seconds: Iterator[int]) -> float:
    return float(np.mean(list(seconds))) / HOUR_S


def _interval(values: Floats) -> Interval | None:
    low, high = interval_of_mean(values)
    return None if low is None or high is None else (low, high)


def _p_value(change: Floats) -> float:
    """Two-sided p-value of a mean of zero, by Student's t; 1 if nothing differs."""
    if len(change) < 2 or not change.any():
        return 1.0
    error = float(change.std(ddof=1)) / math.sqrt(len(change))
    return 0.0 if error == 0 else min(2 * student_tail(abs(float(change.mean())) / error, len(change) - 1), 1.0)
