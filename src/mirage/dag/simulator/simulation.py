"""An episode: jobs arrive, a scheduler decides, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.dag.simulator.arrays import Records, State, World
from mirage.dag.simulator.decision import NOTHING, decision
from mirage.dag.simulator.engine import ASKS, REFUSED, STANDS_STILL, apply, next_decision, run
from mirage.dag.simulator.world import DagCluster, initial_state, make_world
from mirage.dag.workload.arrivals import Arrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ContractBroken
from mirage.job_state import Floats, Ints


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an episode.

    Attributes:
        jct_s: Shape (jobs,), seconds from each job's arrival to its end.
        makespan_s: From the first arrival to the last end.
        moves: Executors sent from one job to another, or from the general pool to a job.
        idle_share: Of executor-time up to the makespan neither in tasks nor in moves.
        decisions: How often the scheduler was asked.
        peak_jobs: The most jobs that were in the system at once.
    """

    jct_s: Floats
    makespan_s: float
    moves: int
    idle_share: float
    decisions: int
    peak_jobs: int


class DagSimulation:
    """One episode.

    Args:
        templates: Kinds of jobs.
        arrivals: Which come when.
        cluster: The executors.
        seed: Of the durations.
        log: Whether every task that runs is kept (``runs``).
    """

    def __init__(
        self,
        templates: Sequence[JobTemplate],
        arrivals: Arrivals,
        cluster: DagCluster,
        *,
        seed: int = 0,
        log: bool = False,
    ) -> None:
        self.world: World = make_world(templates, arrivals, cluster, seed)
        self.state: State = initial_state(self.world, log=log)

    def run(self, decider: Callable[..., int], parameters: Floats, *, times: int = 1) -> Outcome:
        """Play the whole episode with a compiled scheduler.

        Args:
            decider: The scheduler's decision function.
            parameters: Its own.
            times: How often it makes each decision, of which the last counts: more than once to time it.

        Raises:
            ContractBroken: The scheduler picked what may not be picked, or left jobs standing.
        """
        self._check(run(self.world, self.state, decider, parameters, times))
        return self.outcome()

    def advance(self) -> bool:
        """Let time pass until a decision is wanted; False when all jobs have ended.

        Raises:
            ContractBroken: Jobs are left standing.
        """
        return self._check(next_decision(self.world, self.state))

    def decide(self, stage: int, executors: int) -> bool:
        """Give executors of the source to a stage and let time pass as ``advance`` does.

        Raises:
            ContractBroken: The stage may not be picked.
        """
        return self._check(apply(self.world, self.state, decision(stage, executors)))

    def decide_nothing(self) -> bool:
        """Let the free executors become idle, and let time pass as ``advance`` does."""
        return self._check(apply(self.world, self.state, NOTHING))

    @property
    def runs(self) -> Records:
        """RUN: every task that has been started, in that order; empty unless asked for."""
        return self.state.log[: self.state.clock[0].n_log]

    def outcome(self) -> Outcome:
        """What came of the episode so far; jobs that have not ended count up to now."""
        clock, jobs = self.state.clock[0], self.state.jobs
        arrival_ms = self.world.jobs.arrival_ms
        ended = (jobs.active == 0) & (jobs.end_ms > 0)
        end_ms = np.where(ended, jobs.end_ms, np.maximum(clock.now_ms, arrival_ms))
        makespan_ms = int(clock.now_ms - arrival_ms[0])
        there_ms = max(1, makespan_ms * int(self.world.settings[0].executors))
        begun = self.state.heap.time_ms[: clock.n_heap]  # counted up to their end already
        busy_ms = int(clock.running_ms + clock.moving_ms) - int((begun - clock.now_ms).sum())
        return Outcome(
            jct_s=(end_ms - arrival_ms) / 1000,
            makespan_s=makespan_ms / 1000,
            moves=int(clock.moves),
            idle_share=1 - busy_ms / there_ms,
            decisions=int(clock.decisions),
            peak_jobs=_peak(arrival_ms[: clock.arrived], np.asarray(jobs.end_ms[ended])),
        )

    def _check(self, answer: int) -> bool:
        clock = self.state.clock[0]
        if answer == REFUSED:
            raise ContractBroken(
                f"the scheduler picked at {clock.now_ms / 1000} s a stage that may not be picked, or no executor; "
                "pick one of those for which may_pick and takes_more hold"
            )
        if answer == STANDS_STILL:
            raise ContractBroken(
                f"the scheduler left {len(self.world.jobs) - clock.finished} jobs without executors at "
                f"{clock.now_ms / 1000} s, though nothing else will happen; one must be picked"
            )
        return answer == ASKS


def _peak(arrival_ms: Ints, end_ms: Ints) -> int:
    """The most jobs at once; one that arrives in the millisecond in which another ends meets it."""
    gone = np.searchsorted(np.sort(end_ms), arrival_ms)
    return int((np.arange(1, len(arrival_ms) + 1) - gone).max(initial=0))
